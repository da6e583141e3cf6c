// SPDX-License-Identifier: Apache-2.0
//
// minizip streams: it deflates an entry piece by piece, so that memory is limited to a deflate
// state and a buffer. minizip seeks back to write sizes. Therefore the zip is always a regular file
// of ours, and is copied to standard output only when it is complete.
//
// Two kinds of failure are distinguished. If a source cannot be read, its entry is missing and the
// index has a line. If the zip cannot be written, the report ends. minizip does not report the
// reason of a failed write, so write_failed keeps the errno.
#include "producer/service/armed/bugreport_zip.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <zip.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "common/memory.h"
#include "common/nsec.h"
#include "common/str.h"
#include "common/wire.h"
#include "producer/service/armed/kernel_log.h"
#include "protos/fields.h"

#define NAME_MAX_BYTES   100
#define TRACES_MAX       64
#define KERNEL_LOG_SPAN  (10 * 60 * NSEC_PER_SEC)
#define KERNEL_LOG_NAME  "kernel.log"
#define INDEX_NAME       "index.txt"
#define ZIP_MADE_BY_UNIX ((3 << 8) | 20)

static const char *const proc_files[] = {
    "vmstat",          "meminfo",      "zoneinfo",    "buddyinfo", "slabinfo",
    "pressure/memory", "pressure/cpu", "pressure/io", "swaps",     "version",
};
#define N_PROC_FILES ELEMENTS(proc_files)
struct bugreport {
    char *path;            // owned; NULL: standard output
    struct path_end place; // open folder of `path`: a link in the folder's place has no effect
    char *temporary;       // owned; a name in this folder; NULL: no name
    int fd;
    zipFile zip;
    int write_failed; // -errno of the output; 0: none
    struct strbuf entries;
    struct strbuf notes;
    uint64_t entry_bytes;
    uint64_t trace_bytes; // of all traces
    char entry_name[sizeof(BUGREPORT_TRACE_DIR) + NAME_MAX_BYTES + 8];
    char trace_names[TRACES_MAX][NAME_MAX_BYTES + 8];
    size_t n_traces;
    nsec_t started;                      // real time
    nsec_t proc_realtime, proc_boottime; // when /proc was read; 0: not read
    char *version;                       // owned
};

// Output.

static voidpf zip_open(voidpf opaque, const void *name, int mode)
{
    (void)name;
    (void)mode;
    return opaque;
}

static uLong zip_read(voidpf opaque, voidpf stream, void *bytes, uLong size)
{
    (void)stream;
    ssize_t n = read(((struct bugreport *)opaque)->fd, bytes, size);
    return n > 0 ? (uLong)n : 0;
}

static uLong zip_write(voidpf opaque, voidpf stream, const void *bytes, uLong size)
{
    struct bugreport *report = opaque;
    (void)stream;
    int r = report->write_failed ? report->write_failed : fd_write_all(report->fd, bytes, size);
    report->write_failed = r;
    return r < 0 ? 0 : size;
}

static ZPOS64_T zip_tell(voidpf opaque, voidpf stream)
{
    (void)stream;
    return (ZPOS64_T)lseek(((struct bugreport *)opaque)->fd, 0, SEEK_CUR);
}

static long zip_seek(voidpf opaque, voidpf stream, ZPOS64_T offset, int origin)
{
    static const int whences[] = {
        [ZLIB_FILEFUNC_SEEK_SET] = SEEK_SET,
        [ZLIB_FILEFUNC_SEEK_CUR] = SEEK_CUR,
        [ZLIB_FILEFUNC_SEEK_END] = SEEK_END,
    };
    (void)stream;
    if (origin < 0 || origin > ZLIB_FILEFUNC_SEEK_END)
        return -1;
    return lseek(((struct bugreport *)opaque)->fd, (off_t)offset, whences[origin]) < 0 ? -1 : 0;
}

static int zip_close(voidpf opaque, voidpf stream)
{
    (void)opaque;
    (void)stream;
    return 0;
}

static int zip_error(voidpf opaque, voidpf stream)
{
    (void)stream;
    return ((struct bugreport *)opaque)->write_failed ? 1 : 0;
}

static const char *out_name(const struct bugreport *report)
{
    return report->path ? report->path : "<stdout>";
}

static int write_error(const struct bugreport *report, struct err *err)
{
    int r = report->write_failed ? report->write_failed : -EIO;
    return err_errno(err, r, "%s: cannot be written", out_name(report));
}

// Making and ending.

// Makes a file without a name. Some file systems do not support O_TMPFILE.
static int temporary_in(const char *dir)
{
    char name[256];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    if ((size_t)snprintf(name, sizeof(name), "%s/mmtrace-XXXXXX", dir) >= sizeof(name))
        return -ENAMETOOLONG;
    fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    unlink(name);
    return fd;
}

int bugreport_temporary_file(void)
{
    const char *const dirs[] = {getenv("TMPDIR"), "/tmp", "/data/local/tmp"};
    int r = -ENOENT;
    for (size_t i = 0; r < 0 && i < ELEMENTS(dirs); i++)
        if (dirs[i] && dirs[i][0] == '/')
            r = temporary_in(dirs[i]);
    return r;
}

int bugreport_scratch_file(const struct bugreport *report)
{
    const char *slash = report->path ? strrchr(report->path, '/') : NULL;
    CLEANUP(freep) char *folder = NULL;
    if (slash)
        folder = strndup(report->path, (size_t)(slash - report->path) + 1);
    int r = report->path ? temporary_in(folder ? folder : ".") : -ENOENT;
    return r < 0 ? bugreport_temporary_file() : r;
}

static int partial_name(char *to, size_t size, const char *name, pid_t pid)
{
    int n = snprintf(to, size, "%s.%d.partial", name, (int)pid);
    return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

void bugreport_partial_remove(const struct path_end *place, pid_t pid)
{
    char name[PATH_MAX];
    if (partial_name(name, sizeof(name), place->name, pid) == 0)
        unlinkat(place->folder, name, 0);
}

static int make_file(struct bugreport *report, const char *path, struct err *err)
{
    if (!path) {
        report->fd = bugreport_temporary_file();
        return report->fd < 0 ? err_errno(err, report->fd, "temporary file") : 0;
    }
    struct stat st;
    char name[PATH_MAX];
    struct path_end *place = &report->place;
    int r = path_walk(path, false, NULL, place);
    if (place->part)
        return path_walk_error(path, place, err);
    if (r == 0 && fstatat(place->folder, place->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(st.st_mode))
        return err_set(err, -EEXIST, "%s: exists and is not a regular file", path);
    if (r == 0)
        r = partial_name(name, sizeof(name), place->name, getpid());
    if (r < 0)
        return err_errno(err, r, "%s", path);
    report->path = strdup(path);
    CLEANUP(freep) char *temporary = strdup(name);
    if (!report->path || !temporary)
        return err_errno(err, -ENOMEM, "%s", path);
    report->fd =
        openat(place->folder, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (report->fd < 0)
        return err_errno(err, -errno, "%s", path);
    report->temporary = STEAL(temporary);
    return 0;
}

int bugreport_new(const char *path, const char *version, struct bugreport **ret, struct err *err)
{
    struct bugreport *report = calloc(1, sizeof(*report));
    if (!report)
        return err_errno(err, -ENOMEM, "bugreport");
    report->fd = -1;
    report->place = PATH_END_INIT;
    report->started = nsec_now(CLOCK_REALTIME);
    report->version = strdup(version);
    int r = report->version ? make_file(report, str_eq(path, "-") ? NULL : path, err)
                            : err_errno(err, -ENOMEM, "bugreport");
    zlib_filefunc64_def functions = {
        .zopen64_file = zip_open,
        .zread_file = zip_read,
        .zwrite_file = zip_write,
        .ztell64_file = zip_tell,
        .zseek64_file = zip_seek,
        .zclose_file = zip_close,
        .zerror_file = zip_error,
        .opaque = report,
    };
    if (r == 0) {
        report->zip = zipOpen2_64("", APPEND_STATUS_CREATE, NULL, &functions);
        if (!report->zip)
            r = err_errno(err, -ENOMEM, "bugreport");
    }
    if (r < 0) {
        bugreport_free(report);
        return r;
    }
    *ret = report;
    return 0;
}

struct bugreport *bugreport_free(struct bugreport *report)
{
    if (!report)
        return NULL;
    int saved = errno;
    if (report->zip) {
        report->write_failed = -ECANCELED; // minizip writes its directory at each close
        zipClose(report->zip, NULL);
    }
    report->fd = close_fd(report->fd);
    if (report->temporary)
        unlinkat(report->place.folder, report->temporary, 0);
    path_end_done(&report->place);
    free(report->temporary);
    free(report->path);
    free(report->version);
    strbuf_done(&report->entries);
    strbuf_done(&report->notes);
    free(report);
    errno = saved;
    return NULL;
}

// Entries.

static int entry_begin(struct bugreport *report, const char *name, struct err *err)
{
    time_t now = time(NULL);
    struct tm tm;
    zip_fileinfo info = {.external_fa = (uLong)(S_IFREG | 0644) << 16};
    if (gmtime_r(&now, &tm))
        info.tmz_date = (tm_zip){
            .tm_sec = tm.tm_sec,
            .tm_min = tm.tm_min,
            .tm_hour = tm.tm_hour,
            .tm_mday = tm.tm_mday,
            .tm_mon = tm.tm_mon,
            .tm_year = tm.tm_year + 1900,
        };
    snprintf(report->entry_name, sizeof(report->entry_name), "%s", name);
    report->entry_bytes = 0;
    int r = zipOpenNewFileInZip4_64(report->zip, name, &info, NULL, 0, NULL, 0, NULL, Z_DEFLATED,
                                    Z_DEFAULT_COMPRESSION, 0, -MAX_WBITS, DEF_MEM_LEVEL,
                                    Z_DEFAULT_STRATEGY, NULL, 0, ZIP_MADE_BY_UNIX, 0, 0);
    return r == ZIP_OK ? 0 : write_error(report, err);
}

static int entry_add(struct bugreport *report, const void *bytes, size_t size, struct err *err)
{
    if (zipWriteInFileInZip(report->zip, bytes, (unsigned)size) != ZIP_OK)
        return write_error(report, err);
    report->entry_bytes += size;
    return 0;
}

static int entry_end(struct bugreport *report, const char *about, const char *problem,
                     struct err *err)
{
    if (zipCloseFileInZip(report->zip) != ZIP_OK)
        return write_error(report, err);
    strbuf_addf(&report->entries, "%12llu  %s", (unsigned long long)report->entry_bytes,
                report->entry_name);
    if (about)
        strbuf_addf(&report->entries, "  %s", about);
    if (problem)
        strbuf_addf(&report->entries, "  (%s)", problem);
    strbuf_add_char(&report->entries, '\n');
    return 0;
}

static void entry_missing(struct bugreport *report, const char *name, const char *why)
{
    strbuf_addf(&report->entries, "%12s  %s  (%s)\n", "-", name, why);
}

// The machine.

static int copy_proc_file(struct bugreport *report, const char *proc_root, const char *name,
                          struct err *err)
{
    char path[512], entry[64], bytes[16384];
    snprintf(path, sizeof(path), "%s/%s", proc_root, name);
    snprintf(entry, sizeof(entry), "FS/proc/%s", name);
    int fd CLEANUP(close_fdp) = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof(bytes));
    if (n < 0) {
        entry_missing(report, entry, strerror(errno));
        return 0;
    }
    int r = entry_begin(report, entry, err);
    const char *problem = NULL;
    while (r == 0 && n > 0) {
        if (report->entry_bytes + (uint64_t)n > BUGREPORT_PROC_FILE_MAX) {
            problem = "cut";
            break;
        }
        r = entry_add(report, bytes, (size_t)n, err);
        n = r == 0 ? read(fd, bytes, sizeof(bytes)) : 0;
        if (n < 0)
            problem = strerror(errno);
    }
    return r < 0 ? r : entry_end(report, NULL, problem, err);
}

struct kernel_log_copy {
    struct bugreport *report;
    bool begun, write_failed;
};

static int take_kernel_log(void *userdata, const char *text, size_t size, struct err *err)
{
    struct kernel_log_copy *copy = userdata;
    int r = copy->begun ? 0 : entry_begin(copy->report, KERNEL_LOG_NAME, err);
    copy->begun = true;
    if (r == 0)
        r = entry_add(copy->report, text, size, err);
    copy->write_failed = r < 0;
    return r;
}

static int copy_kernel_log(struct bugreport *report, const char *path, struct err *err)
{
    nsec_t now = nsec_now(CLOCK_MONOTONIC);
    struct kernel_log_range range = {
        .since = now > KERNEL_LOG_SPAN ? now - KERNEL_LOG_SPAN : 0,
        .max_bytes = BUGREPORT_KERNEL_LOG_MAX,
    };
    struct kernel_log_copy copy = {.report = report};
    struct err reason = {0};
    int r = kernel_log_read(path, &range, take_kernel_log, &copy, &reason);
    if (copy.write_failed || r == -ENOMEM)
        return err_set(err, r, "%s", reason.text);
    if (copy.begun)
        return entry_end(report, NULL, r < 0 ? reason.text : NULL, err);
    entry_missing(report, KERNEL_LOG_NAME,
                  r < 0 ? reason.text : "the kernel said nothing in the last 10 minutes");
    return 0;
}

int bugreport_add_machine(struct bugreport *report, const char *proc_root, const char *kmsg_path,
                          struct err *err)
{
    int r = 0;
    report->proc_realtime = nsec_now(CLOCK_REALTIME);
    report->proc_boottime = nsec_now(CLOCK_BOOTTIME);
    for (size_t i = 0; r == 0 && i < N_PROC_FILES; i++)
        r = copy_proc_file(report, proc_root, proc_files[i], err);
    return r < 0 ? r : copy_kernel_log(report, kmsg_path, err);
}

// Traces.

static bool name_taken(const struct bugreport *report, const char *name)
{
    for (size_t i = 0; i < report->n_traces; i++)
        if (str_eq(report->trace_names[i], name))
            return true;
    return false;
}

// Makes a safe and unique entry name. `wanted` comes from a config: its folders are dropped, and
// `_` replaces a leading `.` and all characters but letters, digits, `-`, `_` and `.`.
static void choose_name(const struct bugreport *report, const char *wanted, char *ret,
                        size_t ret_size)
{
    char safe[NAME_MAX_BYTES + 1];
    const char *slash = wanted ? strrchr(wanted, '/') : NULL;
    if (slash)
        wanted = slash + 1;
    size_t n = 0;
    for (; wanted && wanted[n] && n < NAME_MAX_BYTES; n++) {
        char c = wanted[n];
        bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_' || (c == '.' && n > 0);
        safe[n] = fits ? c : '_';
    }
    safe[n] = '\0';
    snprintf(ret, ret_size, "%s", n > 0 ? safe : BUGREPORT_TRACE_NAME);
    char stem[NAME_MAX_BYTES + 1];
    snprintf(stem, sizeof(stem), "%s", ret);
    char *dot = strrchr(stem, '.');
    char extension[NAME_MAX_BYTES + 1] = "";
    if (dot) {
        snprintf(extension, sizeof(extension), "%s", dot);
        *dot = '\0';
    }
    for (size_t i = 1; name_taken(report, ret); i++)
        snprintf(ret, ret_size, "%s_%zu%s", stem, i, extension);
}

int bugreport_trace_begin(struct bugreport *report, const char *file_name, struct err *err)
{
    if (report->n_traces == TRACES_MAX)
        return err_set(err, -E2BIG, "bugreport: more than %d traces", TRACES_MAX);
    char *name = report->trace_names[report->n_traces];
    choose_name(report, file_name, name, sizeof(report->trace_names[0]));
    report->n_traces++;
    char entry[sizeof(report->entry_name)];
    snprintf(entry, sizeof(entry), BUGREPORT_TRACE_DIR "%s", name);
    return entry_begin(report, entry, err);
}

static uint64_t trace_room(const struct bugreport *report)
{
    uint64_t of_one = BUGREPORT_TRACE_MAX - report->entry_bytes;
    uint64_t of_all = BUGREPORT_TRACES_MAX - report->trace_bytes;
    return of_one < of_all ? of_one : of_all;
}

static int check_trace_room(const struct bugreport *report, uint64_t size, struct err *err)
{
    if (size <= trace_room(report))
        return 0;
    return err_set(err, -EFBIG, "cut, it is larger than what a bugreport holds");
}

static int trace_add(struct bugreport *report, const void *bytes, size_t size, struct err *err)
{
    int r = entry_add(report, bytes, size, err);
    if (r == 0)
        report->trace_bytes += size;
    return r;
}

// Returns the end of the last whole packet among the first `room` bytes of a trace file.
static uint64_t last_border(int fd, uint64_t size, uint64_t room)
{
    uint8_t window[65536];
    uint64_t start = 0, end = 0, border = 0;
    while (border < size) {
        if (border < start || border + 1 + WIRE_VARINT_MAX > end) {
            ssize_t n = pread(fd, window, sizeof(window), (off_t)border);
            if (n <= 0)
                return border;
            start = border;
            end = border + (uint64_t)n;
        }
        const uint8_t *p = window + (border - start);
        uint64_t packet;
        if (*p++ != (PB_Trace_packet << 3 | WIRE_BYTES) ||
            !wire_get_varint(&p, window + (end - start), &packet) || packet > room)
            return border;
        uint64_t next = start + (uint64_t)(p - window) + packet;
        if (next > room || next > size)
            return border;
        border = next;
    }
    return border;
}

static int add_bytes(struct bugreport *report, int fd, uint64_t size, struct err *err)
{
    char bytes[16384];
    int r = lseek(fd, 0, SEEK_SET) < 0 ? err_errno(err, -errno, "trace") : 0;
    while (r == 0 && size > 0) {
        ssize_t n = read(fd, bytes, size < sizeof(bytes) ? (size_t)size : sizeof(bytes));
        if (n < 0)
            return err_errno(err, -errno, "trace");
        if (n == 0)
            break;
        size -= (uint64_t)n;
        r = trace_add(report, bytes, (size_t)n, err);
    }
    return r;
}

int bugreport_trace_add_file(struct bugreport *report, int fd, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "trace");
    uint64_t size = (uint64_t)st.st_size, room = trace_room(report);
    int r = add_bytes(report, fd, size > room ? last_border(fd, size, room) : size, err);
    return r < 0 ? r : check_trace_room(report, size > room ? size : 0, err);
}

int bugreport_trace_end(struct bugreport *report, const char *about, const char *problem,
                        struct err *err)
{
    return entry_end(report, about, problem, err);
}

const char *bugreport_entry_name(const struct bugreport *report)
{
    return report->entry_name;
}

int bugreport_add_text(struct bugreport *report, const char *name, const char *text, size_t size,
                       struct err *err)
{
    int r = entry_begin(report, name, err);
    if (r == 0)
        r = entry_add(report, text, size, err);
    return r < 0 ? r : entry_end(report, NULL, NULL, err);
}

// The index.

void bugreport_note(struct bugreport *report, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    strbuf_addf(&report->notes, "%s\n", line);
}

static void add_time(struct strbuf *out, nsec_t time)
{
    time_t seconds = (time_t)(time / NSEC_PER_SEC);
    struct tm tm;
    char text[64] = "";
    if (gmtime_r(&seconds, &tm))
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    strbuf_add_str(out, text);
}

// Adds the line that gives the trace time of the files of /proc. mmsql reads this line.
static void add_proc_time(struct strbuf *out, const struct bugreport *report)
{
    char time[64];
    time_t seconds = (time_t)(report->proc_realtime / NSEC_PER_SEC);
    struct tm tm;
    if (!report->proc_realtime || !gmtime_r(&seconds, &tm) ||
        strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        return;
    strbuf_addf(out, "proc      %lld.%09lld s after boot, %s.%09lldZ\n",
                (long long)(report->proc_boottime / NSEC_PER_SEC),
                (long long)(report->proc_boottime % NSEC_PER_SEC), time,
                (long long)(report->proc_realtime % NSEC_PER_SEC));
}

static int write_index(struct bugreport *report, struct err *err)
{
    struct strbuf text CLEANUP(strbuf_done) = {0};
    struct utsname host;
    strbuf_addf(&text, "bugreport of mmtrace %s\n\nbegun     ", report->version);
    add_time(&text, report->started);
    strbuf_add_str(&text, "\nfinished  ");
    add_time(&text, nsec_now(CLOCK_REALTIME));
    strbuf_addf(&text, "\nuptime    %.1f s\n",
                (double)nsec_now(CLOCK_BOOTTIME) / (double)NSEC_PER_SEC);
    add_proc_time(&text, report);
    if (uname(&host) == 0)
        strbuf_addf(&text, "host      %s\nkernel    %s %s %s\n", host.nodename, host.sysname,
                    host.release, host.machine);
    strbuf_add_str(&text, "\nSessions\n");
    strbuf_add(&text, report->notes.text, report->notes.size);
    strbuf_add_str(&text, "\nFiles: bytes, name, and why they are not there or not whole\n");
    strbuf_add(&text, report->entries.text, report->entries.size);
    if (text.failed || report->notes.failed || report->entries.failed)
        return err_errno(err, -ENOMEM, "bugreport");
    return bugreport_add_text(report, INDEX_NAME, text.text, text.size, err);
}

static int copy_to_stdout(struct bugreport *report, struct err *err)
{
    char bytes[65536];
    int r = lseek(report->fd, 0, SEEK_SET) < 0 ? -errno : 0;
    ssize_t n = 0;
    while (r == 0 && (n = read(report->fd, bytes, sizeof(bytes))) > 0)
        r = fd_write_all(STDOUT_FILENO, bytes, (size_t)n);
    if (r == 0 && n < 0)
        r = -errno;
    return r < 0 ? err_errno(err, r, "<stdout>") : 0;
}

int bugreport_finish(struct bugreport *report, uint64_t *ret_size_bytes, struct err *err)
{
    int r = write_index(report, err);
    if (r == 0 && memory_was_refused())
        r = err_errno(err, -ENOMEM, "%s", out_name(report));
    if (r < 0)
        return r;
    zipFile zip = STEAL(report->zip);
    if (zipClose(zip, NULL) != ZIP_OK || report->write_failed)
        return write_error(report, err);
    struct stat st;
    if (fstat(report->fd, &st) < 0)
        return err_errno(err, -errno, "%s", out_name(report));
    if (!report->path)
        r = copy_to_stdout(report, err);
    else if (fsync(report->fd) < 0 || renameat(report->place.folder, report->temporary,
                                               report->place.folder, report->place.name) < 0)
        r = err_errno(err, -errno, "%s", report->path);
    else
        free(STEAL(report->temporary));
    if (r == 0)
        *ret_size_bytes = (uint64_t)st.st_size;
    return r;
}
