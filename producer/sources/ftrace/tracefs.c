// SPDX-License-Identifier: Apache-2.0
//
// Every change that would survive a crash is written to a journal before it is made. The writer
// locks the journal, and the kernel drops the lock when the writer ends: an unlocked journal was
// left behind. The writer's pid cannot show the end: the pid stays taken until the parent reaps the
// process, perhaps for ever, and is meaningless in another pid namespace.
//
// Instances of our own also have the process in their name: mmtrace-PID-STARTTIME-N. By this name a
// sweep finds instances whose journal is in another folder, or was never written, and looks up the
// process. For a process in a PID namespace of its own, the name ends with -NAMESPACE. A sweep
// cannot look up the process of another namespace: it removes the instance if the instance is old,
// unless the open files of a process prevent this.
#include "producer/sources/ftrace/tracefs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/folder.h"
#include "common/nsec.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/proc_text.h"
#include "producer/ground/process_life.h"

#define INSTANCE_PREFIX "mmtrace-"
#define JOURNAL_PREFIX  "ftrace-"
#define READ_MAX        (16u << 20)
#define INSTANCES_MAX   64 // of one process
#define MEMORY_TRIES    5
#define CLOSING_TRIES   25
#define PAUSE           (20 * NSEC_PER_MSEC)
#define OLD_S           60 // a recorder opens files of its new instance long before

static void undo_release(struct tracefs_undo *entry)
{
    free(entry->path);
    free(entry->value);
}

static void undos_release(struct tracefs_undos *undo)
{
    vec_foreach(undo, entry)
        undo_release(entry);
    tracefs_undos_done(undo);
}

static int read_file(const char *path, struct strbuf *ret)
{
    strbuf_clear(ret);
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return fd_read_all(fd, READ_MAX, ret);
}

static int write_file(const char *path, const char *text, int flags)
{
    CLEANUP(close_fdp) int fd = open(path, O_WRONLY | O_CLOEXEC | flags);
    if (fd < 0)
        return -errno;
    return fd_write_all(fd, text, strlen(text));
}

// Files with a list are emptied by O_TRUNC before a write.
static bool is_list(const char *path)
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    return str_eq(name, "set_event_pid") || str_starts_with(name, "set_ftrace_") ||
           str_starts_with(name, "set_graph_");
}

static int write_setting(const char *path, const char *text)
{
    return write_file(path, text, is_list(path) ? O_TRUNC : 0);
}

static char *join(const char *folder, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

void tracefs_setting(struct strbuf *text)
{
    if (!text->text)
        return;
    char *open = strchr(text->text, '['), *close = open ? strchr(open, ']') : NULL;
    if (close && !strchr(text->text, '#')) {
        size_t size = (size_t)(close - open - 1);
        memmove(text->text, open + 1, size);
        text->size = size;
    }
    while (text->size && strchr(" \n", text->text[text->size - 1]))
        text->size--;
    text->text[text->size] = '\0';
}

// Reads the file's content in a form that can be written back.
static int read_restorable(const char *path, struct strbuf *ret)
{
    int r = read_file(path, ret);
    if (r < 0)
        return r;
    if (ret->text && str_starts_with(ret->text, "#"))
        strbuf_clear(ret); // "#### all functions enabled ####": an empty list
    if (!is_list(path))
        tracefs_setting(ret);
    if (str_ends_with(path, "/filter") && ret->size && str_eq(ret->text, "none")) {
        strbuf_clear(ret);
        strbuf_add_str(ret, "0");
    } else if (str_ends_with(path, "/enable") && ret->size > 1) {
        ret->text[ret->size = 1] = '\0'; // "1*": with triggers
    } else if (str_ends_with(path, "buffer_size_kb") && ret->text) {
        ret->text[ret->size = strcspn(ret->text, " ")] = '\0'; // "7 (expanded: 1408)"
    }
    strbuf_add(ret, "", 0);
    return ret->failed ? -ENOMEM : 0;
}

// -- processes --

struct sweep {
    const char *root, *proc;
    uint64_t namespace; // of `proc`
    const struct log *log;
};

static uint64_t own_namespace(const char *proc)
{
    return process_ids_are_of_kernel(proc) ? 0 : process_namespace(proc);
}

static bool is_old(const char *path)
{
    struct stat st;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return lstat(path, &st) == 0 && now.tv_sec - st.st_mtime > OLD_S;
}

// Returns whether the instance belongs to a process that has ended, reaped or not. `name` is the
// part of `path` after the prefix. Returns false for names of another form.
static bool is_of_the_dead(const struct sweep *sweep, const char *path, const char *name)
{
    unsigned long long pid, start, namespace = 0;
    unsigned n;
    char rest;
    struct process_life life;
    if (sscanf(name, "%llu-%llu-%u%c", &pid, &start, &n, &rest) != 3 &&
        sscanf(name, "%llu-%llu-%u-%llu%c", &pid, &start, &n, &namespace, &rest) != 4)
        return false;
    if (namespace != sweep->namespace)
        return is_old(path);
    int r = pid > INT32_MAX ? -ESRCH : process_life_in_time(sweep->proc, (int32_t)pid, &life);
    return !process_file_is_late(r) && (r < 0 || life.start_ticks != start || life.ended);
}

// -- the journal --

// One line per entry: kind, path and value, separated by tabs; tabs, newlines and backslashes are
// escaped. Kinds are rmdir, write and append; "cancel" undoes the previous entry.
static void add_escaped(struct strbuf *line, const char *text)
{
    static const char plain[] = "\n\t\\", escaped[] = "nt\\";
    for (; *text; text++) {
        const char *at = strchr(plain, *text);
        if (at)
            strbuf_add_char(line, '\\');
        strbuf_add_char(line, at ? escaped[at - plain] : *text);
    }
}

static char *unescape(const char *text, size_t size)
{
    CLEANUP(strbuf_done) struct strbuf ret = {0};
    strbuf_add(&ret, "", 0);
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c == '\\' && i + 1 < size) {
            c = text[++i];
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        strbuf_add_char(&ret, c);
    }
    return ret.failed ? NULL : strbuf_steal(&ret);
}

// Takes the writer's lock. Returns false if a sweep has removed the journal since its creation: to
// a sweep, an unlocked journal was left behind.
static bool hold(int journal_fd)
{
    struct stat st;
    return flock(journal_fd, LOCK_EX | LOCK_NB) == 0 && fstat(journal_fd, &st) == 0 &&
           st.st_nlink > 0;
}

static void open_journal(struct tracefs *fs, const char *state_dir, uint64_t start)
{
    if (mkdir(state_dir, 0700) < 0 && errno != EEXIST)
        return;
    for (unsigned n = 0; n < INSTANCES_MAX && fs->journal_fd < 0; n++) {
        CLEANUP(freep) char *path = NULL;
        if (asprintf(&path, "%s/" JOURNAL_PREFIX "%d-%llu-%u", state_dir, getpid(),
                     (unsigned long long)start, n) < 0)
            return;
        fs->journal_fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
        if (fs->journal_fd < 0 && errno != EEXIST)
            return;
        if (fs->journal_fd < 0)
            continue;
        if (hold(fs->journal_fd))
            fs->journal = STEAL(path);
        else
            fs->journal_fd = close_fd(fs->journal_fd);
    }
}

static void write_journal(const struct tracefs *fs, const char *kind,
                          const struct tracefs_undo *entry)
{
    if (fs->journal_fd < 0)
        return;
    CLEANUP(strbuf_done) struct strbuf line = {0};
    strbuf_addf(&line, "%s\t", kind);
    add_escaped(&line, entry->path);
    strbuf_add_char(&line, '\t');
    add_escaped(&line, entry->value ? entry->value : "");
    strbuf_add_char(&line, '\n');
    // If the journal cannot be written, only the cleanup after a crash is lost.
    if (!line.failed && write(fs->journal_fd, line.text, line.size) < 0)
        return;
}

static int remember(struct tracefs *fs, const char *full_path, const char *value, bool append)
{
    struct tracefs_undo entry = {.path = strdup(full_path + strlen(fs->root) + 1),
                                 .value = value ? strdup(value) : NULL,
                                 .append = append};
    if (!entry.path || (value && !entry.value) || tracefs_undos_push(&fs->undo, entry) < 0) {
        undo_release(&entry);
        return -ENOMEM;
    }
    write_journal(fs, !entry.value ? "rmdir" : entry.append ? "append" : "write", &entry);
    return 0;
}

// Cancels the last remember().
static void forget(struct tracefs *fs)
{
    struct tracefs_undo *last = &fs->undo.items[--fs->undo.n];
    write_journal(fs, "cancel", last);
    undo_release(last);
}

// Makes or removes an instance. Tries again after the errno `passing`, `tries` times in all.
static int change_instance(const char *path, bool make, int passing, unsigned tries)
{
    const struct timespec pause = nsec_to_timespec(PAUSE);
    while ((make ? mkdir(path, 0750) : rmdir(path)) < 0) {
        if (errno != passing || --tries == 0)
            return -errno;
        nanosleep(&pause, NULL);
    }
    return 0;
}

static int undo_one(const char *root, const struct tracefs_undo *entry)
{
    if (strstr(entry->path, "..")) // journals name files of tracefs only
        return -EINVAL;
    CLEANUP(freep) char *path = join(root, entry->path);
    if (!path)
        return -ENOMEM;
    if (!entry->value) // the kernel may still be closing files of a process that has just ended
        return change_instance(path, false, EBUSY, CLOSING_TRIES);
    return entry->append ? write_file(path, entry->value, O_APPEND)
                         : write_setting(path, entry->value);
}

// A probe cannot be removed while an instance records it. A failed write does not matter here: then
// the removal of the probe or instance fails too, and is logged.
static void silence_instances(const char *root, const struct tracefs_undos *undo)
{
    vec_foreach(undo, entry) {
        if (entry->value || strstr(entry->path, ".."))
            continue;
        CLEANUP(freep) char *events = NULL, *tracer = NULL;
        if (asprintf(&events, "%s/%s/events/enable", root, entry->path) >= 0)
            write_file(events, "0", 0);
        if (asprintf(&tracer, "%s/%s/current_tracer", root, entry->path) >= 0)
            write_file(tracer, "nop", 0);
    }
}

static void undo_all(const char *root, const struct tracefs_undos *undo, const struct log *log)
{
    silence_instances(root, undo);
    for (size_t i = undo->n; i-- > 0;) {
        int r = undo_one(root, &undo->items[i]);
        if (r < 0 && r != -ENOENT)
            log_warning(log, "ftrace: %s/%s could not be restored: %s", root, undo->items[i].path,
                        strerror(-r));
    }
}

// -- opening and closing --

static int no_access(const char *path, int r, struct err *err)
{
    err_errno(err, r, "%s", path);
    if (r == -ENOMEM)
        err_hint(err, r,
                 "the kernel has no memory for a buffer; try again, or set instance_name to an "
                 "existing instance");
    if (r == -EACCES || r == -EPERM)
        err_hint(err, r,
                 "run as root, or let a group in: mount -o remount,gid=GROUP,mode=770 on "
                 "the tracefs");
    return r;
}

// A new instance takes 1.4 MB for each CPU at once. Recordings often begin just when memory is
// short, and the kernel does not wait for memory here.
static int make_instance(const char *path)
{
    return change_instance(path, true, ENOMEM, MEMORY_TRIES);
}

static int open_own_instance(struct tracefs *fs, const char *proc, uint64_t start, struct err *err)
{
    char suffix[32] = "";
    uint64_t namespace = own_namespace(proc);
    if (namespace)
        snprintf(suffix, sizeof(suffix), "-%" PRIu64, namespace);
    for (unsigned n = 0; n < INSTANCES_MAX; n++) {
        CLEANUP(freep) char *path = NULL;
        if (asprintf(&path, "%s/instances/" INSTANCE_PREFIX "%d-%llu-%u%s", fs->root, getpid(),
                     (unsigned long long)start, n, suffix) < 0)
            return -ENOMEM;
        int r = make_instance(path);
        if (r == 0) {
            fs->path = STEAL(path);
            fs->created = true;
            return remember(fs, fs->path, NULL, false);
        }
        if (r != -EEXIST)
            return no_access(path, r, err);
    }
    return err_set(err, -EBUSY, "%s/instances: this process has too many instances", fs->root);
}

static int open_named_instance(struct tracefs *fs, const char *name, struct err *err)
{
    if (!*name || strchr(name, '/') || name[0] == '.')
        return err_set(err, -EINVAL, "instance_name \"%s\": not a name of a folder", name);
    CLEANUP(freep) char *path = NULL;
    if (asprintf(&path, "%s/instances/%s", fs->root, name) < 0)
        return -ENOMEM;
    int r = make_instance(path);
    if (r < 0 && r != -EEXIST)
        return no_access(path, r, err);
    fs->created = r == 0;
    fs->path = STEAL(path);
    return fs->created ? remember(fs, fs->path, NULL, false) : 0;
}

int tracefs_open(const struct tracefs_options *options, struct tracefs *ret, struct err *err)
{
    struct tracefs fs = {.journal_fd = -1, .root = strdup(options->root)};
    if (!fs.root)
        return -ENOMEM;
    struct process_life self = {0};
    process_life_read(options->proc, getpid(), &self);
    CLEANUP(freep) char *instances = join(fs.root, "instances");
    int r = instances ? 0 : -ENOMEM;
    if (!r && access(instances, options->main_buffer ? X_OK : W_OK) < 0)
        r = no_access(instances, -errno, err);
    if (!r) {
        open_journal(&fs, options->state_dir, self.start_ticks);
        if (options->main_buffer)
            r = (fs.path = strdup(fs.root)) ? 0 : -ENOMEM;
        else
            r = options->instance ? open_named_instance(&fs, options->instance, err)
                                  : open_own_instance(&fs, options->proc, self.start_ticks, err);
    }
    if (r < 0) {
        tracefs_close(&fs, NULL);
        return r;
    }
    *ret = fs;
    return 0;
}

void tracefs_close(struct tracefs *fs, const struct log *log)
{
    if (!fs->root)
        return;
    undo_all(fs->root, &fs->undo, log);
    undos_release(&fs->undo);
    if (fs->journal)
        unlink(fs->journal);
    close_fd(fs->journal_fd);
    free(fs->journal);
    free(fs->path);
    free(fs->root);
    *fs = (struct tracefs){.journal_fd = -1};
}

// -- files --

int tracefs_read_at(struct strbuf *ret, const char *format, ...)
{
    CLEANUP(freep) char *path = NULL;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&path, format, args);
    va_end(args);
    return n < 0 ? -ENOMEM : read_file(path, ret);
}

int tracefs_read(const struct tracefs *fs, const char *path, struct strbuf *ret)
{
    return tracefs_read_at(ret, "%s/%s", fs->path, path);
}

bool tracefs_read_u64(const struct tracefs *fs, const char *path, uint64_t *ret)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    const char *cursor;
    return tracefs_read(fs, path, &text) == 0 && (cursor = text.text) &&
           str_scan_u64(&cursor, text.text + text.size, ret);
}

int tracefs_clear(const struct tracefs *fs)
{
    CLEANUP(freep) char *full = join(fs->path, "trace");
    return full ? write_file(full, "", O_TRUNC) : -ENOMEM;
}

int tracefs_change(struct tracefs *fs, const char *path, const char *text)
{
    CLEANUP(freep) char *full = join(fs->path, path);
    CLEANUP(strbuf_done) struct strbuf old = {0};
    if (full && fs->created)
        return write_setting(full, text);
    int r = full ? read_restorable(full, &old) : -ENOMEM;
    if (r < 0)
        return r;
    if (old.text && str_eq(old.text, text))
        return 0;
    r = remember(fs, full, old.text ? old.text : "", false);
    return r < 0 ? r : write_setting(full, text);
}

int tracefs_append_root(struct tracefs *fs, const char *path, const char *line,
                        const char *undo_line)
{
    CLEANUP(freep) char *full = join(fs->root, path);
    if (!full)
        return -ENOMEM;
    int r = remember(fs, full, undo_line, true);
    if (r == 0)
        r = write_file(full, line, O_APPEND);
    if (r == -EEXIST) // the line belongs to another program, and must not be removed
        forget(fs);
    return r;
}

// -- sweeping --

static int parse_journal(const struct strbuf *text, struct tracefs_undos *ret)
{
    // The writer may have died in the middle of the last line.
    struct span rest = span_whole_lines(span_over(text->text, text->size)), line;
    while (span_take_line(&rest, &line)) {
        const char *tab = memchr(line.pos, '\t', span_size(line));
        const char *second = tab ? memchr(tab + 1, '\t', (size_t)(line.end - tab - 1)) : NULL;
        if (!second)
            return 0;
        if (*line.pos == 'c') {
            if (ret->n)
                undo_release(&ret->items[--ret->n]);
            continue;
        }
        bool is_rmdir = *line.pos == 'r';
        struct tracefs_undo entry = {
            .path = unescape(tab + 1, (size_t)(second - tab - 1)),
            .value = is_rmdir ? NULL : unescape(second + 1, (size_t)(line.end - second - 1)),
            .append = *line.pos == 'a',
        };
        if (!entry.path || (!is_rmdir && !entry.value) || tracefs_undos_push(ret, entry) < 0) {
            undo_release(&entry);
            return -ENOMEM;
        }
    }
    return 0;
}

// Returns true if the object of `process` at `path` was removed.
typedef bool (*sweep_func)(const struct sweep *sweep, const char *path, const char *process);

static bool sweep_journal(const struct sweep *sweep, const char *path, const char *process)
{
    CLEANUP(close_fdp) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return false;
    CLEANUP(strbuf_done) struct strbuf text = {0};
    struct tracefs_undos undo = {0};
    bool read = read_file(path, &text) == 0 && parse_journal(&text, &undo) == 0;
    if (read) {
        undo_all(sweep->root, &undo, sweep->log);
        unlink(path);
        log_info(sweep->log, "ftrace: undid changes that process %s left behind", process);
    }
    undos_release(&undo);
    return read;
}

static bool sweep_instance(const struct sweep *sweep, const char *path, const char *process)
{
    if (!is_of_the_dead(sweep, path, process) || rmdir(path) < 0)
        return false;
    log_info(sweep->log,
             "ftrace: removed instance " INSTANCE_PREFIX "%s, left by a process that is gone",
             process);
    return true;
}

// Sweeps each entry of the folder whose name is `prefix` and a process. Returns the number swept.
static unsigned sweep_folder(const struct sweep *sweep, const char *folder, const char *prefix,
                             sweep_func sweep_one)
{
    DIR *dir CLEANUP(closedirp) = opendir(folder);
    if (!dir)
        return 0;
    unsigned n = 0;
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (!str_starts_with(entry->d_name, prefix))
            continue;
        CLEANUP(freep) char *path = join(folder, entry->d_name);
        if (path && sweep_one(sweep, path, entry->d_name + strlen(prefix)))
            n++;
    }
    return n;
}

unsigned tracefs_sweep(const char *root, const char *proc, const char *state_dir,
                       const struct log *log)
{
    const struct sweep sweep = {
        .root = root, .proc = proc, .namespace = own_namespace(proc), .log = log};
    CLEANUP(freep) char *instances = join(root, "instances");
    unsigned n = sweep_folder(&sweep, state_dir ? state_dir : TRACEFS_STATE_DIR, JOURNAL_PREFIX,
                              sweep_journal);
    return instances ? n + sweep_folder(&sweep, instances, INSTANCE_PREFIX, sweep_instance) : n;
}
