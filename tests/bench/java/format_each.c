// SPDX-License-Identifier: Apache-2.0
//
// What libtiallocsample.so is measured against: an agent that walks the stack and formats all names
// anew for each allocation, under one lock, and flushes each line. Its option is the log's path.
#include <jvmti.h>
#include <pthread.h>
#include <stdio.h>

#define DEPTH 50

static FILE *log_file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void frame_put(jvmtiEnv *jvmti, JNIEnv *jni, jmethodID method)
{
    char *name = NULL, *signature = NULL, *type = NULL;
    jclass klass;
    if ((*jvmti)->GetMethodDeclaringClass(jvmti, method, &klass) != JVMTI_ERROR_NONE)
        return;
    (*jvmti)->GetMethodName(jvmti, method, &name, &signature, NULL);
    (*jvmti)->GetClassSignature(jvmti, klass, &type, NULL);
    fprintf(log_file, "%s::%s%s\n", type, name, signature);
    fflush(log_file);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)name);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)signature);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)type);
    (*jni)->DeleteLocalRef(jni, klass);
}

static void JNICALL on_allocation(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread, jobject object,
                                  jclass klass, jlong size)
{
    jvmtiFrameInfo frames[DEPTH];
    jvmtiThreadInfo info;
    char *type = NULL;
    jint n = 0;
    (void)object;
    pthread_mutex_lock(&lock);
    (*jvmti)->GetStackTrace(jvmti, NULL, 0, DEPTH, frames, &n);
    (*jvmti)->GetThreadInfo(jvmti, thread, &info);
    (*jvmti)->GetClassSignature(jvmti, klass, &type, NULL);
    fprintf(log_file, "jthread[%s], jclass[%s], size[%lld]\n", info.name, type, (long long)size);
    fflush(log_file);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)info.name);
    (*jvmti)->Deallocate(jvmti, (unsigned char *)type);
    for (jint i = 0; i < n; i++)
        frame_put(jvmti, jni, frames[i].method);
    pthread_mutex_unlock(&lock);
}

static void JNICALL on_vm_init(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread)
{
    (void)jni;
    (void)thread;
    (*jvmti)->SetHeapSamplingInterval(jvmti, 0);
    (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_SAMPLED_OBJECT_ALLOC, NULL);
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *path, void *reserved)
{
    static const jvmtiEventCallbacks callbacks = {.VMInit = on_vm_init,
                                                  .SampledObjectAlloc = on_allocation};
    jvmtiCapabilities wanted = {.can_generate_sampled_object_alloc_events = 1};
    jvmtiEnv *jvmti;
    (void)reserved;
    log_file = fopen(path ? path : "/dev/null", "we");
    if (!log_file || (*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_1_2) != JNI_OK ||
        (*jvmti)->AddCapabilities(jvmti, &wanted) != JVMTI_ERROR_NONE)
        return JNI_ERR;
    (*jvmti)->SetEventCallbacks(jvmti, &callbacks, sizeof(callbacks));
    (*jvmti)->SetEventNotificationMode(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT, NULL);
    return JNI_OK;
}
