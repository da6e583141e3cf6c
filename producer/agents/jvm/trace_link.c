// SPDX-License-Identifier: Apache-2.0
//
// The VM draws the samples: points in the stream of allocated bytes, at the interval that the
// recorder wants. A sampled object also stands for objects of its size that have no point, so sums
// are right on average.
//
// A sampled object is tagged with the sample's number, and the VM reports when the object is gone.
// The tag costs the collector less than a weak reference, and nothing has to poll. Garbage that is
// not yet collected counts as in use.
//
// The VM knows the thread, but a waiting thread never delays the VM.
#include "producer/agents/jvm/trace_link.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "producer/agents/jvm/quiet_thread.h"
#include "producer/agents/jvm/trace_ring.h"
#include "producer/agents/jvm/vm_names.h"

#define LOOK_MS        1000
#define SMALL_INTERVAL (256 << 10)

struct trace_link {
    JavaVM *vm;
    jvmtiEnv *jvmti;
    jint depth_limit;
    bool lines;
    struct trace_ring *ring;
    _Atomic uint64_t interval_bytes;
    atomic_bool ended, disposes;
    bool begins_with_profile;                               // the thread begins in a profile
    int wake_fd;                                            // owned; -1: the thread has ended
    pthread_mutex_t lock;                                   // for the two sockets and for waking
    char socket[AGENT_SOCKET_MAX], visit[AGENT_SOCKET_MAX]; // empty: none
};

struct name_request {
    struct trace_link *link;
    JNIEnv *jni;
};

static size_t frame_name(void *userdata, const struct sample_frame *frame, char *text, size_t size)
{
    const struct name_request *request = userdata;
    struct vm_method_style style = {.plain = true, .line = request->link->lines};
    return vm_method_name(request->link->jvmti, request->jni, (jmethodID)(uintptr_t)frame->method,
                          frame->place, style, text, size);
}

double trace_link_chance(const struct trace_link *link, int64_t size_bytes)
{
    uint64_t interval = atomic_load_explicit(&link->interval_bytes, memory_order_relaxed);
    return interval > 1 ? -expm1(-(double)size_bytes / (double)interval) : 1;
}

void trace_link_sample(struct trace_link *link, JNIEnv *jni, jobject object, int64_t size_bytes)
{
    jvmtiEnv *jvmti = link->jvmti;
    jvmtiFrameInfo infos[AGENT_DEPTH_MAX];
    struct sample_frame frames[AGENT_DEPTH_MAX];
    struct name_request request = {link, jni};
    jint n = 0;
    if (size_bytes <= 0)
        return;
    if ((*jvmti)->GetStackTrace(jvmti, NULL, 0, link->depth_limit, infos, &n) != JVMTI_ERROR_NONE)
        n = 0;
    for (jint i = 0; i < n; i++)
        frames[i] =
            (struct sample_frame){(uintptr_t)infos[i].method, link->lines ? infos[i].location : 0};
    double weight = (double)size_bytes / trace_link_chance(link, size_bytes);
    uint64_t number = trace_ring_add(link->ring, frames, (size_t)n, (uint64_t)llround(weight),
                                     frame_name, &request);
    if (number > 0 && (*jvmti)->SetTag(jvmti, object, (jlong)number) != JVMTI_ERROR_NONE)
        trace_ring_free(link->ring, number);
}

void trace_link_freed(struct trace_link *link, int64_t tag)
{
    trace_ring_free(link->ring, (uint64_t)tag);
}

static void events_set(const struct trace_link *link, bool on)
{
    jvmtiEnv *jvmti = link->jvmti;
    jvmtiCapabilities have;
    jvmtiEventMode mode = on ? JVMTI_ENABLE : JVMTI_DISABLE;
    if ((*jvmti)->GetCapabilities(jvmti, &have) != JVMTI_ERROR_NONE)
        return;
    (*jvmti)->SetEventNotificationMode(jvmti, mode, JVMTI_EVENT_OBJECT_FREE, NULL);
    if (!have.can_generate_sampled_object_alloc_events) {
        (*jvmti)->SetEventNotificationMode(jvmti, mode, JVMTI_EVENT_VM_OBJECT_ALLOC, NULL);
        return;
    }
    if (on) {
        uint64_t interval = atomic_load(&link->interval_bytes);
        (*jvmti)->SetHeapSamplingInterval(jvmti, interval > 1 ? (jint)interval : 0);
        // The VM hands out a thread's piece of the heap without events up to its end. A garbage
        // collection takes these pieces away. With large intervals this does not matter.
        if (interval < SMALL_INTERVAL)
            (*jvmti)->ForceGarbageCollection(jvmti);
    }
    (*jvmti)->SetEventNotificationMode(jvmti, mode, JVMTI_EVENT_SAMPLED_OBJECT_ALLOC, NULL);
}

// Returns true if there is a profile.
static bool recorder_find(struct trace_link *link)
{
    char socket[AGENT_SOCKET_MAX];
    uint64_t interval;
    pthread_mutex_lock(&link->lock);
    memcpy(socket, link->visit[0] ? link->visit : link->socket, sizeof(socket));
    link->visit[0] = '\0';
    pthread_mutex_unlock(&link->lock);
    if (!socket[0] || trace_ring_connect(link->ring, socket, &interval) < 0)
        return false;
    atomic_store(&link->interval_bytes, interval < INT32_MAX ? interval : INT32_MAX);
    events_set(link, true);
    return true;
}

// If link->socket is empty, the thread sleeps until trace_link_turn() sets a socket.
static void link_sleep(struct trace_link *link)
{
    struct pollfd wake = {.fd = link->wake_fd, .events = POLLIN};
    uint64_t n;
    pthread_mutex_lock(&link->lock);
    int time = link->socket[0] ? LOOK_MS : -1;
    pthread_mutex_unlock(&link->lock);
    if (poll(&wake, 1, time) > 0)
        (void)!read(link->wake_fd, &n, sizeof(n));
}

// A socket that is set during a profile is used after the profile's end.
static void profile_run(struct trace_link *link)
{
    uint64_t n;
    while (!trace_ring_wait(link->ring, link->wake_fd)) {
        (void)!read(link->wake_fd, &n, sizeof(n));
        if (atomic_load(&link->ended))
            break;
    }
    if (!atomic_load(&link->ended))
        events_set(link, false);
    trace_ring_disconnect(link->ring);
}

// Closes wake_fd. Nobody wakes the thread afterwards.
static void wake_close(struct trace_link *link)
{
    pthread_mutex_lock(&link->lock);
    close(link->wake_fd);
    link->wake_fd = -1;
    pthread_mutex_unlock(&link->lock);
}

static void link_wake(struct trace_link *link)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&link->lock);
    if (link->wake_fd >= 0)
        (void)!write(link->wake_fd, &one, sizeof(one));
    pthread_mutex_unlock(&link->lock);
}

static void *link_run(void *userdata)
{
    struct trace_link *link = userdata;
    char name[] = "tiallocsample";
    JavaVMAttachArgs args = {.version = JNI_VERSION_1_6, .name = name};
    JNIEnv *jni;
    if ((*link->vm)->AttachCurrentThreadAsDaemon(link->vm, (void **)&jni, &args) != JNI_OK) {
        trace_ring_disconnect(link->ring);
        wake_close(link);
        return NULL;
    }
    bool has_profile = link->begins_with_profile;
    while (!atomic_load(&link->ended)) {
        if (has_profile)
            profile_run(link);
        else
            link_sleep(link);
        has_profile = !atomic_load(&link->ended) && recorder_find(link);
    }
    trace_ring_disconnect(link->ring); // a profile that began during the end
    wake_close(link);
    if (atomic_load(&link->disposes))
        (*link->jvmti)->DisposeEnvironment(link->jvmti);
    (*link->vm)->DetachCurrentThread(link->vm);
    return NULL;
}

struct trace_link *trace_link_new(JavaVM *vm, jvmtiEnv *jvmti, const struct agent_options *options)
{
    struct trace_link *link = calloc(1, sizeof(*link));
    if (!link || !(link->ring = trace_ring_new()) ||
        (link->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
        if (link)
            free(link->ring);
        free(link);
        return NULL;
    }
    link->vm = vm;
    link->jvmti = jvmti;
    link->depth_limit = (jint)options->depth_limit;
    link->lines = options->lines;
    pthread_mutex_init(&link->lock, NULL);
    trace_link_turn(link, options);
    return link;
}

void trace_link_drop(struct trace_link *link)
{
    close(link->wake_fd);
    free(link->ring);
    free(link);
}

bool trace_link_begin(struct trace_link *link, bool at_start)
{
    link->begins_with_profile = at_start && recorder_find(link);
    if (quiet_thread_start(link_run, link))
        return true;
    events_set(link, false);
    trace_ring_disconnect(link->ring);
    return false;
}

void trace_link_end(struct trace_link *link, bool disposes)
{
    atomic_store(&link->disposes, disposes);
    atomic_store(&link->ended, true);
    trace_ring_disconnect(link->ring);
    link_wake(link);
}

void trace_link_turn(struct trace_link *link, const struct agent_options *options)
{
    pthread_mutex_lock(&link->lock);
    memcpy(options->once ? link->visit : link->socket, options->socket, sizeof(options->socket));
    pthread_mutex_unlock(&link->lock);
    link_wake(link);
}
