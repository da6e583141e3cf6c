// SPDX-License-Identifier: Apache-2.0
//
// The VM's names of threads, classes and methods, in the log's format. Each function returns the
// length of the text, which is cut to `size` and not terminated. Only while the VM is live.
#pragma once

#include <jvmti.h>
#include <stdbool.h>
#include <stddef.h>

size_t vm_thread_name(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread, char *text, size_t size);

// Writes signature and source: `[I file: <UNKNOWN_FILE>`.
size_t vm_class_name(jvmtiEnv *jvmti, jclass klass, char *text, size_t size);

struct vm_method_style {
    bool short_name; // run()V, not Ljava/lang/Thread;::run()V
    bool plain;      // java.lang.Thread.run
    bool line;       // followed by (Thread.java:829), the place in the method
};

size_t vm_method_name(jvmtiEnv *jvmti, JNIEnv *jni, jmethodID method, jlocation place,
                      struct vm_method_style style, char *text, size_t size);
