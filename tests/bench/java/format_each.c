// SPDX-License-Identifier: Apache-2.0
//
// The reference for libtiallocsample.so: an agent that for each allocation, under one lock,
// walks the stack, asks for all names and formats them, looks up what came of it to find the keys,
// and flushes each line. Options: `PATH`, the log; `walk`, which walks stacks and does nothing
// else; `nothing`, which is told of each allocation and returns.
#include <jvmti.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "producer/agents/jvm/byte_table.h"

#define DEPTH      50
#define TEXT_MAX   1024
#define NUMBER_MAX 24

static FILE *log_file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct byte_table keys;
static uint64_t next_key;

// The key of a text, whose line is written if it is new.
static uint64_t text_key(char kind, const char *text)
{
    const struct byte_entry *known = byte_table_find(&keys, text, strlen(text));
    if (known)
        return known->number;
    byte_table_add(&keys, text, strlen(text), next_key);
    fprintf(log_file, "%c%llu,%s\n", kind, (unsigned long long)next_key, text);
    fflush(log_file);
    return next_key++;
}

static uint64_t frame_key(jvmtiEnv *jvmti, JNIEnv *jni, jmethodID method)
{
    char text[TEXT_MAX], *name = NULL, *signature = NULL, *type = NULL;
    jclass klass = NULL;
    (*jvmti)->GetMethodDeclaringClass(jvmti, method, &klass);
    (*jvmti)->GetMethodName(jvmti, method, &name, &signature, NULL);
    (*jvmti)->GetClassSignature(jvmti, klass, &type, NULL);
    snprintf(text, sizeof(text), "%s::%s%s", type, name, signature);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)name);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)signature);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)type);
    (*jni)->DeleteLocalRef(jni, klass);
    return text_key('+', text);
}

static uint64_t record_key(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread, jclass klass, jlong size)
{
    char text[TEXT_MAX], *type = NULL, *file = NULL;
    jvmtiThreadInfo info = {0};
    (*jvmti)->GetThreadInfo(jvmti, thread, &info);
    (*jvmti)->GetClassSignature(jvmti, klass, &type, NULL);
    (*jvmti)->GetSourceFileName(jvmti, klass, &file);
    snprintf(text, sizeof(text), "jthread[%s], jclass[%s file: %s], size[%lld, hex: 0x%llx]",
             info.name, type, file ? file : "<UNKNOWN_FILE>", (long long)size, (long long)size);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)info.name);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)type);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)file);
    (*jni)->DeleteLocalRef(jni, info.thread_group);
    (*jni)->DeleteLocalRef(jni, info.context_class_loader);
    return text_key('+', text);
}

static void JNICALL on_allocation(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread, jobject object,
                                  jclass klass, jlong size)
{
    char stack[(DEPTH + 1) * NUMBER_MAX];
    jvmtiFrameInfo frames[DEPTH];
    jint n = 0;
    (void)object;
    pthread_mutex_lock(&lock);
    (*jvmti)->GetStackTrace(jvmti, NULL, 0, DEPTH, frames, &n);
    char *at = stack + snprintf(stack, NUMBER_MAX, "%llu",
                                (unsigned long long)record_key(jvmti, jni, thread, klass, size));
    while (n-- > 0)
        at += snprintf(at, NUMBER_MAX, ";%llu",
                       (unsigned long long)frame_key(jvmti, jni, frames[n].method));
    fprintf(log_file, "%llu\n", (unsigned long long)text_key('=', stack));
    fflush(log_file);
    pthread_mutex_unlock(&lock);
}

static void JNICALL on_allocation_walk(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread, jobject object,
                                       jclass klass, jlong size)
{
    jvmtiFrameInfo frames[DEPTH];
    jint n = 0;
    (void)jni;
    (void)thread;
    (void)object;
    (void)klass;
    (void)size;
    (*jvmti)->GetStackTrace(jvmti, NULL, 0, DEPTH, frames, &n);
}

static void JNICALL on_allocation_nothing(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread,
                                          jobject object, jclass klass, jlong size)
{
    (void)jvmti;
    (void)jni;
    (void)thread;
    (void)object;
    (void)klass;
    (void)size;
}

static void JNICALL on_vm_init(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread)
{
    (void)jni;
    (void)thread;
    (*jvmti)->SetHeapSamplingInterval(jvmti, 0);
    (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_SAMPLED_OBJECT_ALLOC, NULL);
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *option, void *reserved)
{
    jvmtiEventCallbacks callbacks = {.VMInit = on_vm_init, .SampledObjectAlloc = on_allocation};
    jvmtiCapabilities wanted = {.can_generate_sampled_object_alloc_events = 1,
                                .can_get_source_file_name = 1};
    jvmtiEnv *jvmti;
    (void)reserved;
    if (option && strcmp(option, "walk") == 0)
        callbacks.SampledObjectAlloc = on_allocation_walk;
    else if (option && strcmp(option, "nothing") == 0)
        callbacks.SampledObjectAlloc = on_allocation_nothing;
    else if (!(log_file = fopen(option ? option : "/dev/null", "we")))
        return JNI_ERR;
    if ((*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_1_2) != JNI_OK ||
        (*jvmti)->AddCapabilities(jvmti, &wanted) != JVMTI_ERROR_NONE)
        return JNI_ERR;
    (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof(callbacks));
    (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, NULL);
    return JNI_OK;
}
