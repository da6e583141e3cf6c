// SPDX-License-Identifier: Apache-2.0
//
// References to dead objects are dropped when the set has doubled: the set stays small for a
// program that frees what it allocates, and each reference is examined a bounded number of times.
// Beyond OBJECTS_MAX an object counts as lost, because weak references cost the collector time,
// too.
//
// The lock may be held during calls of the VM: no event of the VM interrupts them, and a thread
// that waits for the lock lets the VM stop the world.
#include "producer/agents/jvm/live_set.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "producer/agents/jvm/line_file.h"

#define OBJECTS_MIN 4096
#define OBJECTS_MAX (1u << 20)

struct live_object {
    jweak object; // owned
    uint64_t stack_key;
};

struct live_set {
    pthread_mutex_t lock;
    struct live_object *objects; // owned
    size_t n, capacity;
    uint64_t n_lost;
    bool ended;
};

struct live_set *live_set_new(void)
{
    struct live_set *live = calloc(1, sizeof(*live));
    if (live)
        pthread_mutex_init(&live->lock, NULL);
    return live;
}

static void gone_drop(struct live_set *live, JNIEnv *env)
{
    size_t kept = 0;
    for (size_t i = 0; i < live->n; i++) {
        if ((*env)->IsSameObject(env, live->objects[i].object, NULL))
            (*env)->DeleteWeakGlobalRef(env, live->objects[i].object);
        else
            live->objects[kept++] = live->objects[i];
    }
    live->n = kept;
}

static bool room_make(struct live_set *live, JNIEnv *env)
{
    if (live->n < live->capacity)
        return true;
    gone_drop(live, env);
    if (live->n * 2 <= live->capacity && live->n < live->capacity)
        return true;
    size_t capacity = live->capacity ? live->capacity * 2 : OBJECTS_MIN;
    struct live_object *grown =
        capacity <= OBJECTS_MAX ? realloc(live->objects, capacity * sizeof(*grown)) : NULL;
    if (!grown)
        return live->n < live->capacity;
    live->objects = grown;
    live->capacity = capacity;
    return true;
}

void live_set_add(struct live_set *live, JNIEnv *env, jobject object, uint64_t stack_key)
{
    jweak weak = (*env)->NewWeakGlobalRef(env, object);
    if (!weak)
        (*env)->ExceptionClear(env); // the exception is not the program's
    pthread_mutex_lock(&live->lock);
    bool has_room = weak && !live->ended && room_make(live, env);
    if (has_room)
        live->objects[live->n++] = (struct live_object){weak, stack_key};
    else if (!live->ended)
        live->n_lost++;
    pthread_mutex_unlock(&live->lock);
    if (!has_room && weak)
        (*env)->DeleteWeakGlobalRef(env, weak);
}

static int definitions_copy(FILE *from, FILE *to)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t n;
    while ((n = getline(&line, &size, from)) > 0)
        if (line[0] == '+' || line[0] == '=')
            fwrite(line, 1, (size_t)n, to);
    free(line);
    return ferror(from) ? -EIO : 0;
}

static int file_open(const char *path, FILE **ret)
{
    int fd = line_file_take(path);
    if (fd < 0)
        return fd;
    FILE *file = fdopen(fd, "w");
    if (!file) {
        close(fd);
        return -ENOMEM;
    }
    *ret = file;
    return 0;
}

static int live_put(struct live_set *live, JNIEnv *env, const char *log_path, FILE *to)
{
    FILE *from = fopen(log_path, "re");
    int r = from ? definitions_copy(from, to) : -errno;
    if (from)
        fclose(from);
    pthread_mutex_lock(&live->lock);
    gone_drop(live, env);
    for (size_t i = 0; r == 0 && i < live->n; i++)
        fprintf(to, "%" PRIu64 "\n", live->objects[i].stack_key);
    pthread_mutex_unlock(&live->lock);
    return r == 0 && ferror(to) ? -EIO : r;
}

static void live_end(struct live_set *live, JNIEnv *env)
{
    pthread_mutex_lock(&live->lock);
    for (size_t i = 0; i < live->n; i++)
        (*env)->DeleteWeakGlobalRef(env, live->objects[i].object);
    free(live->objects);
    live->objects = NULL;
    live->n = live->capacity = 0;
    live->ended = true;
    pthread_mutex_unlock(&live->lock);
}

int live_set_write(struct live_set *live, JNIEnv *env, const char *log_path)
{
    char path[PATH_MAX];
    FILE *to = NULL;
    int r = snprintf(path, sizeof(path), "%s.live", log_path) < (int)sizeof(path)
                ? file_open(path, &to)
                : -ENAMETOOLONG;
    if (r == 0) {
        r = live_put(live, env, log_path, to);
        r = fclose(to) == 0 || r < 0 ? r : -errno;
    }
    live_end(live, env);
    return r;
}

uint64_t live_set_n_lost(struct live_set *live)
{
    pthread_mutex_lock(&live->lock);
    uint64_t n = live->n_lost;
    pthread_mutex_unlock(&live->lock);
    return n;
}
