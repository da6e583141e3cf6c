// SPDX-License-Identifier: Apache-2.0
//
// Every call may fail: a class may be unloaded between the stack and the call, and a VM may lack a
// capability. Unknown things get a name that says so, so that a stack keeps its depth.
#include "producer/agents/jvm/vm_names.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static size_t text_put(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static size_t text_put(char *text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, size, format, args);
    va_end(args);
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

static void vm_free(jvmtiEnv *jvmti, void *text)
{
    if (text)
        (*jvmti)->Deallocate(jvmti, text);
}

static void local_free(JNIEnv *jni, jobject object)
{
    if (object)
        (*jni)->DeleteLocalRef(jni, object);
}

size_t vm_thread_name(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread, char *text, size_t size)
{
    jvmtiThreadInfo info = {0};
    if (!thread || (*jvmti)->GetThreadInfo(jvmti, thread, &info) != JVMTI_ERROR_NONE)
        return text_put(text, size, "<UNKNOWN_THREAD>");
    size_t n = text_put(text, size, "%s", info.name ? info.name : "<UNKNOWN_THREAD>");
    vm_free(jvmti, info.name);
    local_free(jni, info.thread_group);
    local_free(jni, info.context_class_loader);
    return n;
}

size_t vm_class_name(jvmtiEnv *jvmti, jclass klass, char *text, size_t size)
{
    char *signature = NULL, *file = NULL;
    if ((*jvmti)->GetClassSignature(jvmti, klass, &signature, NULL) != JVMTI_ERROR_NONE)
        signature = NULL;
    if ((*jvmti)->GetSourceFileName(jvmti, klass, &file) != JVMTI_ERROR_NONE)
        file = NULL;
    size_t n = text_put(text, size, "%s file: %s", signature ? signature : "<UNKNOWN_CLASS>",
                        file ? file : "<UNKNOWN_FILE>");
    vm_free(jvmti, signature);
    vm_free(jvmti, file);
    return n;
}

// Returns the line of the last entry at or before the place. 0: unknown.
static jint line_find(jvmtiEnv *jvmti, jmethodID method, jlocation place)
{
    jvmtiLineNumberEntry *lines = NULL;
    jlocation best = -1;
    jint n = 0, line = 0;
    if (place < 0 || (*jvmti)->GetLineNumberTable(jvmti, method, &n, &lines) != JVMTI_ERROR_NONE)
        return 0;
    for (jint i = 0; i < n; i++)
        if (lines[i].start_location <= place && lines[i].start_location > best) {
            best = lines[i].start_location;
            line = lines[i].line_number;
        }
    vm_free(jvmti, lines);
    return line;
}

static size_t line_put(jvmtiEnv *jvmti, jclass klass, jmethodID method, jlocation place, char *text,
                       size_t size)
{
    char *file = NULL;
    jint line = line_find(jvmti, method, place);
    if (line == 0 || !klass || (*jvmti)->GetSourceFileName(jvmti, klass, &file) != JVMTI_ERROR_NONE)
        return 0;
    size_t n = text_put(text, size, " (%s:%d)", file, (int)line);
    vm_free(jvmti, file);
    return n;
}

// Changes Ljava/lang/Thread; to java.lang.Thread in place.
static const char *type_plain(char *type)
{
    size_t n = strlen(type);
    if (n < 2 || type[0] != 'L' || type[n - 1] != ';')
        return type;
    type[n - 1] = '\0';
    for (char *at = type; (at = strchr(at, '/'));)
        *at = '.';
    return type + 1;
}

size_t vm_method_name(jvmtiEnv *jvmti, JNIEnv *jni, jmethodID method, jlocation place,
                      struct vm_method_style style, char *text, size_t size)
{
    char *name = NULL, *signature = NULL, *type = NULL;
    jclass klass = NULL;
    if ((*jvmti)->GetMethodName(jvmti, method, &name, &signature, NULL) != JVMTI_ERROR_NONE)
        return text_put(text, size, "<UNKNOWN_METHOD>");
    if ((*jvmti)->GetMethodDeclaringClass(jvmti, method, &klass) != JVMTI_ERROR_NONE)
        klass = NULL;
    if (klass && (*jvmti)->GetClassSignature(jvmti, klass, &type, NULL) != JVMTI_ERROR_NONE)
        type = NULL;
    size_t n;
    if (style.plain && type)
        n = text_put(text, size, "%s.%s", type_plain(type), name);
    else if (style.plain)
        n = text_put(text, size, "%s", name);
    else if (style.short_name || !type)
        n = text_put(text, size, "%s%s", name, signature);
    else
        n = text_put(text, size, "%s::%s%s", type, name, signature);
    if (style.line)
        n += line_put(jvmti, klass, method, place, text + n, size - n);
    vm_free(jvmti, name);
    vm_free(jvmti, signature);
    vm_free(jvmti, type);
    local_free(jni, klass);
    return n;
}
