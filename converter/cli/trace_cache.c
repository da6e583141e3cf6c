// SPDX-License-Identifier: Apache-2.0
//
// An entry is a folder with two files: the database, and a note. The note has the key, the size of
// the database, and the messages of the conversion. The name of the folder is a hash of the key.
// The folder is complete before rename() gives the folder its name, so a reader never sees an
// incomplete entry. The size in the note reveals a database that a crash of the machine has cut.
//
// The process that converts has no right to write into entries (trace_keeper.h).
//
// No process waits for a lock. If two processes convert the same trace, the cache takes the
// database that is renamed first; the other process uses its own database for its own answer. An
// entry that is removed stays whole for the processes that have the entry open.
//
// The key has times of the file. A write within the same tick of the kernel's clock would not
// change the times, so the database of a file that changed in the present tick is not kept.
//
// Names below the cache lead to files of the caller only. Each folder and link above belongs to the
// caller or to root, and no other user can exchange the entries of a folder. A stranger's folder
// would lead a query of root to a stranger's answers.
#include "converter/cli/trace_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/fnv.h"
#include "common/folder.h"
#include "common/memory.h"
#include "common/nsec.h"
#include "common/vec.h"
#include "converter/cli/say.h"
#include "converter/tables/defend.h"

#define SIZE_VARIABLE  "MMTRACE_CACHE_SIZE"
#define BYTES_DEFAULT  ((uint64_t)8 << 30)
#define FORM           "mmsql cache 1"
#define DATABASE       "database"
#define NOTE           "note"
#define NAME_DIGITS    16
#define NOTE_BYTES_MAX ((size_t)16 << 20)
#define ROOM_TIMES     64 // times the trace: more than the database of a deflated trace needs
#define ROOM_LEAST     ((uint64_t)16 << 20)
#define BLOCK_BYTES    512 // of st_blocks
#define DAMAGED_S      1   // modification time of an entry that cannot be used

static char *path_make(const char *folder, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

// -- the folder --

static void refuse(struct trace_cache *cache, const char *folder, const char *why)
{
    if (!cache->refusal &&
        asprintf(&cache->refusal,
                 "%s: no cache of traces, because this folder %s (XDG_CACHE_HOME "
                 "names another folder, --no-cache uses none)",
                 folder, why) < 0)
        cache->refusal = NULL;
}

// Returns the real path of a folder, or NULL with errno. The folder and all folders above must be
// trusted. A link of another user could lead root's databases into a folder of root that is not a
// cache.
static char *real_path(struct trace_cache *cache, const char *folder)
{
    CLEANUP(path_end_done) struct path_end end = PATH_END_INIT;
    CLEANUP(freep) char *inside = path_make(folder, ".");
    int r = inside ? path_walk(inside, true, folder_fault, &end) : -ENOMEM;
    if (r == 0)
        return realpath(folder, NULL);
    if (end.part)
        refuse(cache, end.part, end.fault);
    errno = -r;
    return NULL;
}

// Returns the folder of all caches, whose last part may not exist. Returns NULL if the environment
// names no folder.
static char *base_name(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/')
        return strdup(cache);
    return home && *home == '/' ? path_make(home, ".cache") : NULL;
}

// Makes the last part of `path` if the folder above can be trusted.
static void base_make(struct trace_cache *cache, const char *path)
{
    CLEANUP(freep) char *above = folder_of(path);
    CLEANUP(freep) char *real = above ? real_path(cache, above) : NULL;
    if (real)
        mkdir(path, 0700);
}

// Makes, opens and judges the cache's own folder. A link is not followed.
static bool own_folder_make(struct trace_cache *cache, const char *folder)
{
    struct stat st;
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return false;
    CLEANUP(close_fdp) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const char *fault = "cannot be opened as a folder";
    if (fd >= 0 && fstat(fd, &st) == 0)
        fault = st.st_uid != geteuid()             ? "belongs to another user"
                : st.st_mode & (S_IWGRP | S_IWOTH) ? "can be changed by other users"
                                                   : NULL;
    if (fault)
        refuse(cache, folder, fault);
    else if ((st.st_mode & 0777) != 0700)
        fchmod(fd, 0700);
    return !fault;
}

static void folder_find(struct trace_cache *cache)
{
    const char *size = getenv(SIZE_VARIABLE);
    cache->bytes_max = BYTES_DEFAULT;
    if (size && str_parse_size(size, &cache->bytes_max) < 0)
        say("%s=%s: not a size, such as 512m or 2g", SIZE_VARIABLE, size);
    if (!cache->bytes_max)
        return;
    CLEANUP(freep) char *base = base_name();
    CLEANUP(freep) char *real = base ? real_path(cache, base) : NULL;
    if (base && !real && errno == ENOENT) {
        base_make(cache, base);
        real = real_path(cache, base);
    }
    CLEANUP(freep) char *folder = real ? path_make(real, "mmtrace") : NULL;
    if (folder && own_folder_make(cache, folder))
        cache->folder = STEAL(folder);
}

// Reads no file, because files of the cache are untrusted: their contents come from traces.
static bool entry_is_there(const struct cached_trace *trace)
{
    struct stat st;
    return lstat(trace->entry, &st) == 0 && st.st_mtim.tv_sec != DAMAGED_S;
}

void trace_cache_open(struct trace_cache *cache, const char *path, const struct limits *limits,
                      bool crops_track_events)
{
    struct cached_trace trace = {0};
    struct stat st;
    if (str_eq(path, "-") || stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return;
    if (!cache->is_looked_for)
        folder_find(cache);
    cache->is_looked_for = true;
    bool is_cacheable = cached_trace_of(cache, path, limits, crops_track_events, &trace);
    if (!is_cacheable || entry_is_there(&trace) || cached_trace_vec_push(&cache->traces, trace) < 0)
        cached_trace_done(&trace);
}

void trace_cache_done(struct trace_cache *cache)
{
    trace_keeper_end(&cache->keeper);
    vec_foreach(&cache->traces, trace)
        cached_trace_done(trace);
    cached_trace_vec_done(&cache->traces);
    free(cache->folder);
    free(cache->refusal);
    *cache = (struct trace_cache){0};
}

// -- the key --

// Adds the identity of the program without its ctime. A further hard link, as perf's cache of
// programs makes, changes the ctime but not the content.
static void program_add(struct strbuf *key, const struct stat *st)
{
    strbuf_addf(key, "%" PRIu64 ":%" PRIu64 " %lld %lld.%09ld\n", (uint64_t)st->st_dev,
                (uint64_t)st->st_ino, (long long)st->st_size, (long long)st->st_mtim.tv_sec,
                st->st_mtim.tv_nsec);
}

static void identity_add(struct strbuf *key, const struct stat *st)
{
    strbuf_addf(key, "%" PRIu64 ":%" PRIu64 " %lld %lld.%09ld %lld.%09ld\n", (uint64_t)st->st_dev,
                (uint64_t)st->st_ino, (long long)st->st_size, (long long)st->st_mtim.tv_sec,
                st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec);
}

static nsec_t nsec_of(const struct timespec *time)
{
    return time->tv_sec * NSEC_PER_SEC + time->tv_nsec;
}

// Returns true if a write from now on gives the file other times. Some file systems count seconds.
static bool is_settled(const struct stat *st, nsec_t now)
{
    nsec_t changed = nsec_of(&st->st_ctim), modified = nsec_of(&st->st_mtim);
    nsec_t last = changed > modified ? changed : modified;
    nsec_t tick = changed % NSEC_PER_SEC || modified % NSEC_PER_SEC ? 0 : 2 * NSEC_PER_SEC;
    return last + tick < now;
}

// Adds the identity of the file, and of the file that a conversion reads beside it.
static bool files_add(struct cached_trace *trace, const char *path)
{
    struct stat st;
    nsec_t now = nsec_now(CLOCK_REALTIME_COARSE);
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    identity_add(&trace->key, &st);
    trace->is_settled = is_settled(&st, now);
    CLEANUP(strbuf_done) struct strbuf beside = {0};
    strbuf_addf(&beside, "%s.times", path);
    if (beside.failed)
        return false;
    if (stat(beside.text, &st) == 0) {
        identity_add(&trace->key, &st);
        trace->is_settled &= is_settled(&st, now);
    }
    return true;
}

bool cached_trace_of(const struct trace_cache *cache, const char *path, const struct limits *limits,
                     bool crops_track_events, struct cached_trace *ret)
{
    struct stat program;
    char name[NAME_DIGITS + 1];
    if (!cache->folder || str_eq(path, "-") || stat("/proc/self/exe", &program) < 0)
        return false;
    strbuf_addf(&ret->key, "%s %s\n", FORM, MMSQL_VERSION);
    program_add(&ret->key, &program);
    if (!files_add(ret, path))
        return false;
    strbuf_addf(&ret->key, "memory %" PRIu64 " output %" PRIu64 " crop %d\n%s", limits->memory,
                limits->output, crops_track_events, path);
    strbuf_add(&ret->key, "", 1);
    if (ret->key.failed)
        return false;
    snprintf(name, sizeof(name), "%016" PRIx64, fnv_add(FNV_BEGIN, ret->key.text, ret->key.size));
    ret->entry = path_make(cache->folder, name);
    ret->path = strdup(path);
    ret->limits = *limits;
    ret->crops_track_events = crops_track_events;
    return ret->entry && ret->path;
}

void cached_trace_done(struct cached_trace *trace)
{
    strbuf_done(&trace->key);
    free(trace->entry);
    free(trace->path);
    *trace = (struct cached_trace){0};
}

// -- entries --

// Empties and removes the entry `name` of the folder `fd`. The database is removed first: a reader
// that finds a note without a database converts the trace. The last file, CACHE_MESSAGES, exists
// only in an incomplete entry.
static void entry_remove(int fd, const char *name)
{
    CLEANUP(close_fdp)
    int entry = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (entry >= 0) {
        unlinkat(entry, DATABASE, 0);
        unlinkat(entry, NOTE, 0);
        unlinkat(entry, CACHE_MESSAGES, 0);
    }
    unlinkat(fd, name, AT_REMOVEDIR);
}

// Opens a regular file of the caller in an entry.
static int own_file_open(int entry, const char *name, struct stat *ret)
{
    int fd = openat(entry, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, ret) == 0 && S_ISREG(ret->st_mode) && ret->st_uid == geteuid()))
        return fd;
    return close_fd(fd);
}

// Reads the note and compares the note with the key and the database. *ret is the place in the note
// after the key and the size, where the messages begin. Returns false if the entry is not the
// answer.
static bool note_read(int entry, const struct cached_trace *trace, struct strbuf *note,
                      const char **ret)
{
    struct stat st;
    CLEANUP(close_fdp) int database = own_file_open(entry, DATABASE, &st);
    struct stat about;
    CLEANUP(close_fdp) int fd = own_file_open(entry, NOTE, &about);
    size_t n = trace->key.size;
    uint64_t size;
    if (database < 0 || fd < 0 || fd_read_all(fd, NOTE_BYTES_MAX, note) < 0 || note->size <= n ||
        memcmp(note->text, trace->key.text, n) != 0)
        return false;
    const char *at = note->text + n, *end = note->text + note->size;
    if (!str_scan_u64(&at, end, &size) || at == end || *at != '\n' || size != (uint64_t)st.st_size)
        return false;
    *ret = at + 1;
    return true;
}

static void messages_print(const char *text)
{
    fputs(text, stderr);
}

bool trace_cache_find(const struct cached_trace *trace, struct sqlite3 **ret)
{
    static const struct timespec damaged[2] = {{.tv_sec = DAMAGED_S}, {.tv_sec = DAMAGED_S}};
    CLEANUP(strbuf_done) struct strbuf note = {0};
    const char *messages;
    CLEANUP(freep) char *path = path_make(trace->entry, DATABASE);
    CLEANUP(close_fdp)
    int entry = open(trace->entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (entry < 0 || !path)
        return false;
    if (note_read(entry, trace, &note, &messages)) {
        if (handle_open_reading(path, ret) == SQLITE_OK) {
            futimens(entry, NULL); // the time of the last use
            messages_print(messages);
            return true;
        }
        sqlite3_close(STEAL(*ret));
    }
    futimens(entry, damaged);
    return false;
}

static uint64_t room_of(const char *folder)
{
    struct statvfs disk;
    if (statvfs(folder, &disk) < 0 || disk.f_blocks == 0) // some file systems report 0
        return UINT64_MAX;
    return (uint64_t)(geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize;
}

bool trace_cache_has_room(const struct trace_cache *cache, const char *path, const char *other)
{
    uint64_t room = room_of(cache->folder);
    if (access(cache->folder, W_OK | X_OK) < 0)
        return false;
    return room >= room_of(other) || room >= ROOM_LEAST + ROOM_TIMES * file_size(path);
}

// -- the bound --

struct entry {
    char name[NAME_DIGITS + 1];
    nsec_t used;
    uint64_t size;
};
VEC_DEFINE(entry_vec, struct entry);

static uint64_t bytes_at(int fd, const char *name)
{
    struct stat st;
    return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_blocks * BLOCK_BYTES
                                                            : 0;
}

static bool is_entry_name(const char *name)
{
    return strlen(name) == NAME_DIGITS && strspn(name, "0123456789abcdef") == NAME_DIGITS;
}

// Reads all entries. *ret_size: the bytes of all entries. Returns 0 or -ENOMEM.
static int entries_read(DIR *dir, struct entry_vec *ret, uint64_t *ret_size)
{
    for (struct dirent *found; (found = readdir(dir));) {
        struct entry entry = {0};
        struct stat st;
        if (!is_entry_name(found->d_name))
            continue;
        CLEANUP(close_fdp)
        int fd = openat(dirfd(dir), found->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
            continue;
        memcpy(entry.name, found->d_name, NAME_DIGITS);
        entry.used = nsec_of(&st.st_mtim);
        entry.size = bytes_at(fd, DATABASE) + bytes_at(fd, NOTE);
        if (entry_vec_push(ret, entry) < 0)
            return -ENOMEM;
        *ret_size += entry.size;
    }
    return 0;
}

static int use_compare(const void *a, const void *b)
{
    const struct entry *one = a, *other = b;
    return (one->used > other->used) - (one->used < other->used);
}

static void entries_trim(const struct trace_cache *cache)
{
    CLEANUP(entry_vec_done) struct entry_vec entries = {0};
    uint64_t size = 0;
    DIR *dir CLEANUP(closedirp) = opendir(cache->folder);
    if (!dir)
        return;
    if (entries_read(dir, &entries, &size) == 0 && entries.n)
        qsort(entries.items, entries.n, sizeof(*entries.items), use_compare);
    for (size_t i = 0; i < entries.n && size > cache->bytes_max; i++) {
        entry_remove(dirfd(dir), entries.items[i].name);
        size -= entries.items[i].size;
    }
}

// -- a new entry --

// Moves the messages of the conversion from their separate file into the note.
static bool note_write(int folder, const struct cached_trace *trace, uint64_t size)
{
    struct stat st;
    CLEANUP(strbuf_done) struct strbuf note = {0};
    CLEANUP(close_fdp) int messages = own_file_open(folder, CACHE_MESSAGES, &st);
    CLEANUP(close_fdp)
    int fd = openat(folder, NOTE, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    strbuf_add(&note, trace->key.text, trace->key.size);
    strbuf_addf(&note, "%" PRIu64 "\n", size);
    return fd >= 0 && messages >= 0 && fd_read_all(messages, NOTE_BYTES_MAX, &note) == 0 &&
           !note.failed && note.size <= NOTE_BYTES_MAX &&
           fd_write_all(fd, note.text, note.size) == 0 && unlinkat(folder, CACHE_MESSAGES, 0) == 0;
}

// Returns true if the folder has no other files than the database and the note.
static bool has_no_more(int folder)
{
    int n = 0;
    int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir CLEANUP(closedirp) = own < 0 ? NULL : fdopendir(own);
    if (!dir) {
        close_fd(own);
        return false;
    }
    for (struct dirent *found; (found = readdir(dir));)
        n += !str_eq(found->d_name, ".") && !str_eq(found->d_name, "..");
    return n == 2;
}

// Completes the entry in the folder `name` of the cache, and gives the folder the entry's name.
static bool entry_complete(const struct trace_cache *cache, int folder, const char *name,
                           const struct cached_trace *trace)
{
    struct stat st;
    CLEANUP(close_fdp)
    int entry = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    CLEANUP(close_fdp) int database = entry < 0 ? -1 : own_file_open(entry, DATABASE, &st);
    if (database < 0 || (uint64_t)st.st_blocks * BLOCK_BYTES > cache->bytes_max ||
        fchmod(entry, 0700) < 0 || fchmod(database, 0600) < 0 ||
        !note_write(entry, trace, (uint64_t)st.st_size) || !has_no_more(entry))
        return false;
    return renameat(folder, name, folder, strrchr(trace->entry, '/') + 1) == 0;
}

// Returns true if the file has not changed since the question began.
static bool is_unchanged(const struct trace_cache *cache, const struct cached_trace *trace)
{
    CLEANUP(cached_trace_done) struct cached_trace now = {0};
    return cached_trace_of(cache, trace->path, &trace->limits, trace->crops_track_events, &now) &&
           now.key.size == trace->key.size &&
           memcmp(now.key.text, trace->key.text, now.key.size) == 0;
}

// Keeps the folder `name` of the folder `place`, which has a new database and its messages. Then
// removes the least recently used entries until all entries take at most bytes_max. Returns false
// if the file changed meanwhile, if the folder does not hold exactly a database and its note, or if
// the cache has the entry already.
static bool folder_keep(void *userdata, uint32_t number, int place, const char *name)
{
    const struct trace_cache *cache = userdata;
    if (number >= cache->traces.n)
        return false;
    const struct cached_trace *trace = &cache->traces.items[number];
    CLEANUP(close_fdp) int folder = open(cache->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || !trace->is_settled || !is_unchanged(cache, trace) ||
        renameat(place, name, folder, name) < 0)
        return false;
    if (!entry_is_there(trace)) // the entry is damaged, or has another key with the same hash
        entry_remove(folder, strrchr(trace->entry, '/') + 1);
    bool is_kept = entry_complete(cache, folder, name, trace);
    if (!is_kept)
        entry_remove(folder, name);
    else
        entries_trim(cache);
    return is_kept;
}

void trace_cache_start(struct trace_cache *cache)
{
    if (cache->traces.n && !cache->keeper.pid)
        trace_keeper_start(&cache->keeper, cache->folder, folder_keep, cache);
}

void trace_cache_ask(const struct trace_cache *cache, const struct cached_trace *trace,
                     const struct strbuf *messages, struct working_folder *folder)
{
    uint32_t number = 0;
    while (number < cache->traces.n && !str_eq(cache->traces.items[number].entry, trace->entry))
        number++;
    trace_keeper_ask(&cache->keeper, number, messages, folder);
}
