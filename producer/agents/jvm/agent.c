// SPDX-License-Identifier: Apache-2.0
//
// The agent inside the VM: from its loading to the sample in the log.
//
// HotSpot and OpenJ9 report sampled allocations at an interval of bytes. For a small rate the
// interval is 0: all allocations are reported. The agent takes one of `sample_rate` consecutive
// allocations of a thread, and draws its position anew each time. Every allocation has the same
// chance, even in threads with fewer than `sample_rate` allocations, and a program with a rhythm
// cannot hide from sampling. For a large rate HotSpot reports only some allocations, see draw.c.
// ART reports each allocation by another event.
//
// A sample needs only numbers unless its stack is new: the thread's name is cached in its JVMTI
// storage, a class's name in its tag, and methods are represented by their ids. Nothing here asks
// for a string twice, and no lock is held while the VM walks a stack. A thread's name is asked for
// again from time to time, because threads may be renamed.
//
// When sampling ends, a callback may still run in any thread for an unknown time. Therefore large
// memory is freed under the locks of its users, and the small rest stays. The VM must survive any
// failure here: an agent that cannot work prints one message, and the VM starts all the same.
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jvmti.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/str.h"
#include "common/text.h"
#include "producer/agents/jvm/draw.h"
#include "producer/agents/jvm/inlined_code.h"
#include "producer/agents/jvm/java_perf_map.h"
#include "producer/agents/jvm/live_set.h"
#include "producer/agents/jvm/quiet_thread.h"
#include "producer/agents/jvm/sample_log.h"
#include "producer/agents/jvm/trace_link.h"
#include "producer/agents/jvm/vm_names.h"
#include "producer/heap/agent_options.h"

_Static_assert(AGENT_DEPTH_MAX <= SAMPLE_FRAMES_MAX, "a stack fits a sample");

#define FLUSH_PERIOD_S              1
#define START_MAX_MS                20000 // longest wait until a VM has started
#define START_STEP_MS               10
#define NAME_USES                   256 // samples after which a thread's name is asked for again
#define STALE_TRIES                 4   // names are dropped every 64 MB
#define SMALL_INTERVAL              (256 << 10)
#define EVEN_RATE_MIN               64 // rate from which on the VM itself skips allocations
#define EVEN_JAVA_MIN               17 // see draw.c
#define SMALLEST_BYTES              16 // size of the smallest object in nearly all HotSpot VMs
#define CAN_SUPPORT_VIRTUAL_THREADS 44 // bit among the capabilities; newer than some jvmti.h

// An agent that the VM loads at its start waits for the end of that start. Meanwhile a request may
// load the agent again.
enum agent_state { AGENT_WAITS, AGENT_RUNS, AGENT_ENDED };

struct agent {
    struct agent_options options;
    JavaVM *vm;
    jvmtiEnv *jvmti;
    struct sample_log *log;    // NULL: no log
    struct trace_link *link;   // NULL: no recorders
    bool vm_samples;           // the VM reports samples instead of all allocations
    int32_t interval;          // its interval for a rate; 0: all allocations
    struct live_set *live;     // NULL: no live set
    struct perf_map *perf_map; // NULL: no perf map
    bool collects_beside;      // see collects_beside()
    bool loss_told;            // the message that the log can no longer be written was printed
    bool perf_map_told;        // the message that the perf map has ended was printed
    _Atomic(enum agent_state) state;
    pthread_mutex_t lock; // for start and stop
    pthread_cond_t stopped;
};

// The agent of the last load. Each load makes an agent, and only the last agent runs.
static _Atomic(struct agent *) current_agent;

struct thread_state {
    struct draw draw;
    struct draw names; // samples until the thread's name is asked for again
    bool inside;       // in the agent's own calls, whose allocations do not count
};

static __thread struct thread_state thread_state;
static __thread bool thread_recalls; // the VM reports code that it compiled earlier

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    fprintf(stderr, "tiallocsample: %s\n", line);
}

static void event_set(jvmtiEnv *jvmti, jvmtiEventMode mode, jvmtiEvent event)
{
    (*jvmti)->SetEventNotificationMode(jvmti, mode, event, NULL);
}

static void code_events_set(jvmtiEnv *jvmti, jvmtiEventMode mode)
{
    event_set(jvmti, mode, JVMTI_EVENT_COMPILED_METHOD_LOAD);
    event_set(jvmti, mode, JVMTI_EVENT_DYNAMIC_CODE_GENERATED);
    event_set(jvmti, mode, JVMTI_EVENT_COMPILED_METHOD_UNLOAD);
}

static void allocations_end(jvmtiEnv *jvmti)
{
    event_set(jvmti, JVMTI_DISABLE, JVMTI_EVENT_SAMPLED_OBJECT_ALLOC);
    event_set(jvmti, JVMTI_DISABLE, JVMTI_EVENT_VM_OBJECT_ALLOC);
}

// NULL stands for the current thread, which the VM finds fastest.
static uint64_t thread_number(struct agent *agent, jvmtiEnv *jvmti, JNIEnv *jni, jthread thread)
{
    char text[SAMPLE_TEXT_MAX];
    void *kept = NULL;
    if ((*jvmti)->GetThreadLocalStorage(jvmti, NULL, &kept) != JVMTI_ERROR_NONE)
        kept = NULL;
    uint64_t number = (uintptr_t)kept;
    if (sample_log_knows(agent->log, number) && !draw_nth(&thread_state.names, NAME_USES))
        return number;
    number =
        sample_log_intern(agent->log, text, vm_thread_name(jvmti, jni, thread, text, sizeof(text)));
    (*jvmti)->SetThreadLocalStorage(jvmti, NULL, (void *)(uintptr_t)number);
    return number;
}

static uint64_t class_number(struct agent *agent, jvmtiEnv *jvmti, jclass klass)
{
    char text[SAMPLE_TEXT_MAX];
    jlong tag = 0;
    if ((*jvmti)->GetTag(jvmti, klass, &tag) == JVMTI_ERROR_NONE && tag > 0 &&
        sample_log_knows(agent->log, (uint64_t)tag))
        return (uint64_t)tag;
    uint64_t number =
        sample_log_intern(agent->log, text, vm_class_name(jvmti, klass, text, sizeof(text)));
    (*jvmti)->SetTag(jvmti, klass, (jlong)number);
    return number;
}

struct name_request {
    struct agent *agent;
    JNIEnv *jni;
};

static size_t frame_name(void *userdata, const struct sample_frame *frame, char *text, size_t size)
{
    const struct name_request *request = userdata;
    const struct agent_options *o = &request->agent->options;
    struct vm_method_style style = {.short_name = o->short_names, .line = o->lines};
    return vm_method_name(request->agent->jvmti, request->jni, (jmethodID)(uintptr_t)frame->method,
                          frame->place, style, text, size);
}

static void sample_take(struct agent *agent, JNIEnv *jni, jthread thread, jobject object,
                        jclass klass, jlong size)
{
    jvmtiEnv *jvmti = agent->jvmti;
    jvmtiFrameInfo frames[AGENT_DEPTH_MAX];
    struct sample sample;
    struct name_request request = {agent, jni};
    uint64_t key;
    jint n = 0;
    if ((*jvmti)->GetStackTrace(jvmti, NULL, 0, (jint)agent->options.depth_limit, frames, &n) !=
        JVMTI_ERROR_NONE)
        n = 0;
    sample.size_bytes = size;
    sample.n_frames = (uint64_t)n;
    for (jint i = 0; i < n; i++)
        sample.frames[i] = (struct sample_frame){(uintptr_t)frames[i].method,
                                                 agent->options.lines ? frames[i].location : 0};
    int r = -ESTALE;
    for (int i = 0; r == -ESTALE && i < STALE_TRIES; i++) {
        sample.thread = thread_number(agent, jvmti, jni, thread);
        sample.type = class_number(agent, jvmti, klass);
        r = sample_log_add(agent->log, &sample, frame_name, &request, &key);
    }
    if (r == 0 && agent->live)
        live_set_add(agent->live, jni, object, key);
    if (r == -EIO) // the log has ended; the program goes on at full speed
        allocations_end(jvmti);
}

static bool allocation_take(const struct agent *agent, struct draw *draw, jlong size)
{
    if (agent->link) // the VM reports each allocation: take some
        return agent->vm_samples || draw_uniform(draw) < trace_link_chance(agent->link, size);
    if (agent->options.bytes > 0)
        return true;
    if (agent->interval == 0)
        return draw_nth(draw, agent->options.sample_rate);
    return draw_even(draw, agent->options.sample_rate, agent->interval, size);
}

static void JNICALL on_allocation(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread, jobject object,
                                  jclass klass, jlong size)
{
    struct agent *agent = atomic_load_explicit(&current_agent, memory_order_acquire);
    struct thread_state *state = &thread_state;
    if (!agent || agent->jvmti != jvmti || state->inside ||
        !allocation_take(agent, &state->draw, size))
        return;
    state->inside = true;
    if (agent->link)
        trace_link_sample(agent->link, jni, object, size);
    else
        sample_take(agent, jni, thread, object, klass, size);
    state->inside = false;
}

static void JNICALL on_object_free(jvmtiEnv *jvmti, jlong tag)
{
    struct agent *agent = atomic_load_explicit(&current_agent, memory_order_acquire);
    if (agent && agent->jvmti == jvmti && agent->link)
        trace_link_freed(agent->link, tag);
}

// Called with the lock held. Returns false if the log has ended, which is printed once.
static bool log_flush(struct agent *agent)
{
    bool open = sample_log_flush(agent->log);
    if (!open && !agent->loss_told)
        say("%s cannot be written any more; it ends here", agent->options.log_path);
    agent->loss_told |= !open;
    return open;
}

// Returns whether the perf map, whose flush returned `r`, is still written. Says once why it is
// not.
static bool perf_map_holds(struct agent *agent, int r)
{
    char path[PERF_MAP_PATH_MAX];
    perf_map_path(getpid(), path);
    if (r == PERF_MAP_E_LIMIT && !agent->perf_map_told)
        say("%s has reached %" PRIu64 " bytes, its file of times included; it ends here", path,
            agent->options.perf_map_max_bytes);
    else if (r < 0 && !agent->perf_map_told)
        say("%s cannot be written any more; it ends here: %s", path, strerror(-r));
    agent->perf_map_told |= r != 0;
    return r == 0;
}

// Runs in a thread unknown to the VM: lines reach the file soon, even if the program is idle.
static void *flush_run(void *userdata)
{
    struct agent *agent = userdata;
    bool log_open = agent->log, map_open = agent->perf_map;
    pthread_mutex_lock(&agent->lock);
    while ((log_open || map_open) && atomic_load(&agent->state) == AGENT_RUNS) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += FLUSH_PERIOD_S;
        pthread_cond_timedwait(&agent->stopped, &agent->lock, &until);
        if (atomic_load(&agent->state) != AGENT_RUNS)
            break;
        if (log_open)
            log_open = log_flush(agent);
        if (map_open)
            map_open = perf_map_holds(agent, perf_map_flush(agent->perf_map));
    }
    pthread_mutex_unlock(&agent->lock);
    return NULL;
}

// Returns whether the VM has a concurrent collector, by the names of its threads. When the VM
// reports its death, this collector has ended, and a requested collection would never complete.
static bool collects_beside(void)
{
    char path[300], name[32];
    bool found = false;
    DIR *dir CLEANUP(closedirp) = opendir("/proc/self/task");
    for (const struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        found = file && fgets(name, sizeof(name), file) &&
                (str_starts_with(name, "ZD") || str_starts_with(name, "Shenandoah"));
        if (file)
            fclose(file);
    }
    return found;
}

static void live_write(struct agent *agent, JNIEnv *jni, bool is_death)
{
    sample_log_flush(agent->log);
    if (!is_death || !agent->collects_beside)
        (*agent->jvmti)->ForceGarbageCollection(agent->jvmti);
    int r = live_set_write(agent->live, jni, agent->options.log_path);
    if (r < 0)
        say("%s.live: %s", agent->options.log_path, strerror(-r));
    if (live_set_n_lost(agent->live))
        say("%s.live: too many objects are in use; some are missing", agent->options.log_path);
}

// Gives the capabilities back to the VM: only one environment can have the events.
static void capabilities_give(const struct agent *agent)
{
    jvmtiEnv *jvmti = agent->jvmti;
    jvmtiCapabilities all;
    if ((*jvmti)->GetCapabilities(jvmti, &all) == JVMTI_ERROR_NONE)
        (*jvmti)->RelinquishCapabilities(jvmti, &all);
}

// Ends sampling and writes all data. In VMs with the event of sampled allocations, also disposes of
// the JVMTI environment and its tags: these VMs keep an environment as long as a callback runs.
static void agent_stop(struct agent *agent, JNIEnv *jni, bool is_death)
{
    enum agent_state state = atomic_exchange(&agent->state, AGENT_ENDED);
    jvmtiEnv *jvmti = agent->jvmti;
    if (state == AGENT_WAITS)
        capabilities_give(agent);
    if (state != AGENT_RUNS)
        return;
    allocations_end(jvmti);
    event_set(jvmti, JVMTI_DISABLE, JVMTI_EVENT_OBJECT_FREE);
    code_events_set(jvmti, JVMTI_DISABLE);
    if (!is_death)
        capabilities_give(agent);
    if (agent->link)
        trace_link_end(agent->link, !is_death && agent->vm_samples);
    if (agent->live)
        live_write(agent, jni, is_death);
    pthread_mutex_lock(&agent->lock);
    if (agent->log && !agent->loss_told)
        log_flush(agent);
    if (agent->log)
        sample_log_close(agent->log);
    if (agent->perf_map)
        perf_map_holds(agent, perf_map_close(agent->perf_map));
    pthread_cond_broadcast(&agent->stopped);
    pthread_mutex_unlock(&agent->lock);
    if (!is_death && !agent->link && agent->vm_samples)
        (*jvmti)->DisposeEnvironment(jvmti);
}

// Returns the size of the smallest object: newer VMs have smaller object headers.
static int64_t smallest_object(const struct agent *agent)
{
    JNIEnv *jni = NULL;
    jlong size = 0;
    if ((*agent->vm)->GetEnv(agent->vm, (void **)&jni, JNI_VERSION_1_6) != JNI_OK)
        return SMALLEST_BYTES;
    jclass klass = (*jni)->FindClass(jni, "java/lang/Object");
    jobject object = klass ? (*jni)->AllocObject(jni, klass) : NULL;
    if (object)
        (*agent->jvmti)->GetObjectSize(agent->jvmti, object, &size);
    (*jni)->ExceptionClear(jni);
    (*jni)->DeleteLocalRef(jni, object);
    (*jni)->DeleteLocalRef(jni, klass);
    return size > 0 && size < SMALLEST_BYTES ? size : SMALLEST_BYTES;
}

static void agent_begin(struct agent *agent, bool at_start)
{
    jvmtiEnv *jvmti = agent->jvmti;
    jvmtiCapabilities have;
    enum agent_state state = AGENT_WAITS;
    if (!atomic_compare_exchange_strong(&agent->state, &state, AGENT_RUNS))
        return;
    if (agent->log || agent->perf_map) {
        // Without this thread, lines are written when the buffer is full and at the end.
        (void)quiet_thread_start(flush_run, agent);
    }
    if (agent->perf_map) {
        code_events_set(jvmti, JVMTI_ENABLE);
        thread_recalls = true;
        (*jvmti)->GenerateEvents(jvmti, JVMTI_EVENT_DYNAMIC_CODE_GENERATED);
        (*jvmti)->GenerateEvents(jvmti, JVMTI_EVENT_COMPILED_METHOD_LOAD);
        thread_recalls = false;
    }
    if (agent->link && !trace_link_begin(agent->link, at_start))
        say("no thread; allocations are not recorded");
    if (!agent->log || (*jvmti)->GetCapabilities(jvmti, &have) != JVMTI_ERROR_NONE)
        return;
    agent->collects_beside = collects_beside();
    if (have.can_generate_sampled_object_alloc_events) {
        if (agent->interval)
            agent->interval = draw_interval(agent->options.sample_rate, smallest_object(agent));
        int32_t interval = agent->interval ? agent->interval : agent->options.bytes;
        (*jvmti)->SetHeapSamplingInterval(jvmti, interval);
        // The VM hands out a thread's piece of the heap without events up to its end. A garbage
        // collection takes these pieces away. With large intervals this does not matter.
        if (interval < SMALL_INTERVAL)
            (*jvmti)->ForceGarbageCollection(jvmti);
        event_set(jvmti, JVMTI_ENABLE, JVMTI_EVENT_SAMPLED_OBJECT_ALLOC);
    } else {
        event_set(jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_OBJECT_ALLOC);
    }
}

static void JNICALL on_vm_init(jvmtiEnv *jvmti, JNIEnv *jni, jthread thread)
{
    struct agent *agent = atomic_load(&current_agent);
    (void)jni;
    (void)thread;
    if (agent && agent->jvmti == jvmti)
        agent_begin(agent, true);
}

static void JNICALL on_vm_death(jvmtiEnv *jvmti, JNIEnv *jni)
{
    struct agent *agent = atomic_load(&current_agent);
    if (agent && agent->jvmti == jvmti)
        agent_stop(agent, jni, true);
}

static int64_t code_ts(void)
{
    struct timespec now;
    if (thread_recalls || clock_gettime(CLOCK_BOOTTIME, &now) < 0)
        return 0;
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct code_request {
    struct agent *agent;
    JNIEnv *jni;
    int64_t ts;
};

// Writes OUTER->INNER, as readers of perf maps expect. If the chain is too long, its innermost
// methods stay.
static void inlined_put(void *userdata, const struct inlined_part *part)
{
    const struct code_request *request = userdata;
    struct vm_method_style style = {0};
    char chain[2 * SAMPLE_TEXT_MAX], text[SAMPLE_TEXT_MAX], *at = chain + sizeof(chain);
    for (size_t i = 0; i < part->n_methods; i++) {
        size_t n = vm_method_name(request->agent->jvmti, request->jni, part->methods[i], 0, style,
                                  text, sizeof(text));
        if (n + 2 > (size_t)(at - chain))
            break;
        if (i > 0) {
            const struct text arrow = TEXT("->");
            at -= arrow.size;
            memcpy(at, arrow.at, arrow.size);
        }
        at -= n;
        memcpy(at, text, n);
    }
    perf_map_add(request->agent->perf_map, request->ts, (const void *)part->from,
                 part->to - part->from, at, (size_t)(chain + sizeof(chain) - at));
}

static void JNICALL on_compiled(jvmtiEnv *jvmti, jmethodID method, jint size, const void *address,
                                jint map_length, const jvmtiAddrLocationMap *map, const void *info)
{
    struct agent *agent = atomic_load(&current_agent);
    char text[SAMPLE_TEXT_MAX];
    JNIEnv *jni = NULL;
    int64_t ts = code_ts();
    (void)map_length;
    (void)map;
    if (!agent || agent->jvmti != jvmti || !agent->perf_map)
        return;
    // Local references need the thread's own JNI environment.
    if ((*agent->vm)->GetEnv(agent->vm, (void **)&jni, JNI_VERSION_1_6) != JNI_OK)
        return;
    size_t n =
        vm_method_name(jvmti, jni, method, 0, (struct vm_method_style){0}, text, sizeof(text));
    perf_map_add(agent->perf_map, ts, address, (size_t)size, text, n);
    struct code_request request = {agent, jni, ts};
    if (agent->options.inlined)
        inlined_code_each(info, address, (size_t)size, inlined_put, &request);
}

static void JNICALL on_code_gone(jvmtiEnv *jvmti, jmethodID method, const void *address)
{
    struct agent *agent = atomic_load(&current_agent);
    (void)method;
    if (agent && agent->jvmti == jvmti && agent->perf_map)
        perf_map_remove(agent->perf_map, code_ts(), address);
}

static void JNICALL on_dynamic_code(jvmtiEnv *jvmti, const char *name, const void *address,
                                    jint size)
{
    struct agent *agent = atomic_load(&current_agent);
    if (agent && agent->jvmti == jvmti && agent->perf_map)
        perf_map_add(agent->perf_map, code_ts(), address, (size_t)size, name, strlen(name));
}

// Returns an empty text if the VM does not have the property.
static void property_get(const struct agent *agent, const char *name, char *text, size_t size)
{
    char *value = NULL;
    bool is_there =
        (*agent->jvmti)->GetSystemProperty(agent->jvmti, name, &value) == JVMTI_ERROR_NONE && value;
    snprintf(text, size, "%s", is_there ? value : "");
    if (is_there)
        (*agent->jvmti)->Deallocate(agent->jvmti, (unsigned char *)value);
}

// Returns whether the VM can sample by rate: HotSpot, which draws the distances between samples.
static bool draws_bytes(const struct agent *agent)
{
    char name[128], version[16];
    if (!agent->vm_samples || agent->link || agent->options.bytes ||
        agent->options.sample_rate < EVEN_RATE_MIN)
        return false;
    property_get(agent, "java.vm.name", name, sizeof(name));
    property_get(agent, "java.vm.specification.version", version, sizeof(version));
    return (strstr(name, "HotSpot") || strstr(name, "OpenJDK")) &&
           strtol(version, NULL, 10) >= EVEN_JAVA_MIN;
}

static bool capability_has(const jvmtiCapabilities *all, unsigned int place)
{
    return ((const uint8_t *)all)[place / 8] >> place % 8 & 1;
}

// Takes the capabilities that the agent needs. Returns false if the VM does not report allocations,
// or reports them to another agent now.
static bool capabilities_take(struct agent *agent)
{
    jvmtiEnv *jvmti = agent->jvmti;
    jvmtiCapabilities offered = {0}, wanted = {0};
    if ((*jvmti)->GetPotentialCapabilities(jvmti, &offered) != JVMTI_ERROR_NONE)
        return false;
    wanted.can_tag_objects = offered.can_tag_objects;
    wanted.can_generate_object_free_events = agent->link && offered.can_generate_object_free_events;
    wanted.can_get_source_file_name = offered.can_get_source_file_name;
    wanted.can_get_line_numbers = offered.can_get_line_numbers;
    if (agent->perf_map)
        wanted.can_generate_compiled_method_load_events =
            offered.can_generate_compiled_method_load_events;
    wanted.can_generate_sampled_object_alloc_events =
        offered.can_generate_sampled_object_alloc_events;
    if (!offered.can_generate_sampled_object_alloc_events)
        wanted.can_generate_vm_object_alloc_events = offered.can_generate_vm_object_alloc_events;
    if (capability_has(&offered, CAN_SUPPORT_VIRTUAL_THREADS))
        ((uint8_t *)&wanted)[CAN_SUPPORT_VIRTUAL_THREADS / 8] |= 1u
                                                                 << CAN_SUPPORT_VIRTUAL_THREADS % 8;
    if ((*jvmti)->AddCapabilities(jvmti, &wanted) != JVMTI_ERROR_NONE)
        return false;
    agent->vm_samples = wanted.can_generate_sampled_object_alloc_events;
    // Before the first thread is made: each thread keeps its first interval up to its first sample.
    if (draws_bytes(agent))
        agent->interval = draw_interval(agent->options.sample_rate, SMALLEST_BYTES);
    if (agent->vm_samples && !agent->link)
        (*jvmti)->SetHeapSamplingInterval(jvmti,
                                          agent->interval ? agent->interval : agent->options.bytes);
    return wanted.can_generate_sampled_object_alloc_events ||
           wanted.can_generate_vm_object_alloc_events;
}

static bool outputs_open(struct agent *agent)
{
    char path[PERF_MAP_PATH_MAX];
    int r = 0;
    if (!agent->options.trace)
        r = sample_log_open(agent->options.log_path, &agent->log);
    else if (!(agent->link = trace_link_new(agent->vm, agent->jvmti, &agent->options)))
        r = -ENOMEM;
    if (r < 0) {
        say("%s: %s; allocations are not recorded", agent->options.log_path, strerror(-r));
        return false;
    }
    if (agent->options.live && !(agent->live = live_set_new()))
        say("no .live file: %s", strerror(ENOMEM));
    perf_map_path(getpid(), path);
    if (agent->options.perf_map)
        r = perf_map_open(getpid(), agent->options.perf_map_max_bytes, &agent->perf_map);
    if (r < 0)
        say("%s: %s; compiled code is not recorded", path, strerror(-r));
    return true;
}

// Frees an agent that never began: no callback knows this agent.
static void agent_drop(struct agent *agent)
{
    if (agent->log)
        sample_log_close(agent->log);
    if (agent->perf_map)
        perf_map_close(agent->perf_map);
    if (agent->link)
        trace_link_drop(agent->link);
    (*agent->jvmti)->DisposeEnvironment(agent->jvmti);
    free(agent->log);
    free(agent->perf_map);
    free(agent->live);
    free(agent);
}

static void stopped_init(pthread_cond_t *stopped)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(stopped, &attr);
    pthread_condattr_destroy(&attr);
}

// A VM loads agents on request before its start is complete, and has no JVMTI for them until then.
// The request has a thread of its own, so the start goes on.
static jvmtiEnv *jvmti_get(JavaVM *vm)
{
    jvmtiEnv *jvmti = NULL;
    jint r;
    for (int i = 0; (r = (*vm)->GetEnv(vm, (void **)&jvmti, JVMTI_VERSION_1_2)) == JNI_EDETACHED &&
                    i < START_MAX_MS / START_STEP_MS;
         i++)
        nanosleep(&(struct timespec){.tv_nsec = START_STEP_MS * 1000000L}, NULL);
    return r == JNI_OK ? jvmti : NULL;
}

// Returns an agent that is ready to begin, or NULL after a message.
static struct agent *agent_new(JavaVM *vm, const struct agent_options *options)
{
    static const jvmtiEventCallbacks callbacks = {
        .VMInit = on_vm_init,
        .VMDeath = on_vm_death,
        .VMObjectAlloc = on_allocation,
        .SampledObjectAlloc = on_allocation,
        .ObjectFree = on_object_free,
        .CompiledMethodLoad = on_compiled,
        .CompiledMethodUnload = on_code_gone,
        .DynamicCodeGenerated = on_dynamic_code,
    };
    struct agent *agent = calloc(1, sizeof(*agent));
    if (!agent || !(agent->jvmti = jvmti_get(vm))) {
        say("this VM has no JVMTI; allocations are not recorded");
        free(agent);
        return NULL;
    }
    agent->vm = vm;
    agent->options = *options;
    pthread_mutex_init(&agent->lock, NULL);
    stopped_init(&agent->stopped);
    if (!outputs_open(agent)) {
        agent_drop(agent);
        return NULL;
    }
    if (!capabilities_take(agent)) {
        say("this VM does not report allocations, or another agent receives them");
        agent_drop(agent);
        return NULL;
    }
    (*agent->jvmti)->SetEventCallbacks(agent->jvmti, &callbacks, sizeof(callbacks));
    event_set(agent->jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_DEATH);
    return agent;
}

static bool options_take(const char *text, struct agent_options *ret)
{
    char why[512];
    if (agent_options_parse(text, getpid(), ret, why, sizeof(why)) == 0)
        return true;
    say("%s; allocations are not recorded", why);
    return false;
}

JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *vm, char *text, void *reserved)
{
    struct agent_options options;
    struct agent *agent;
    (void)reserved;
    if (options_take(text, &options) && !options.stop && (agent = agent_new(vm, &options))) {
        atomic_store(&current_agent, agent);
        event_set(agent->jvmti, JVMTI_ENABLE, JVMTI_EVENT_VM_INIT);
    }
    return JNI_OK;
}

// Gives new options to a running agent. A recorder that finds VMs itself takes nothing away from an
// earlier user of the agent: an agent that writes a log refuses the recorder.
static jint agent_turn(struct agent *agent, const struct agent_options *options)
{
    if (!agent->link) {
        say("allocations go into %s already; the agent refuses another recorder",
            agent->options.log_path);
        return JNI_ERR;
    }
    trace_link_turn(agent->link, options);
    return JNI_OK;
}

JNIEXPORT jint JNICALL Agent_OnAttach(JavaVM *vm, char *text, void *reserved)
{
    struct agent_options options;
    struct agent *agent, *last = atomic_load(&current_agent);
    JNIEnv *jni = NULL;
    (void)reserved;
    if ((*vm)->GetEnv(vm, (void **)&jni, JNI_VERSION_1_6) != JNI_OK)
        return JNI_EDETACHED;
    if (!options_take(text, &options))
        return JNI_ERR;
    if (last && atomic_load(&last->state) != AGENT_ENDED && (last->link || options.once) &&
        options.trace)
        return agent_turn(last, &options);
    if (last)
        agent_stop(last, jni, false);
    if (options.stop)
        return last ? JNI_OK : JNI_ERR;
    agent = agent_new(vm, &options);
    if (!agent)
        return JNI_ERR;
    atomic_store(&current_agent, agent);
    agent_begin(agent, false);
    return JNI_OK;
}
