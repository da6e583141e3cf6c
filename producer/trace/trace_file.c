// SPDX-License-Identifier: Apache-2.0
//
// Packets are framed and copied into one output buffer, and written to the descriptor in large
// pieces. The copy makes slow readers harmless: the packet has left the ring, and a short write
// continues where it stopped. The buffer is reset only when everything in it is written. Therefore
// its beginning is always a packet border, and a walk over the frames finds the last border before
// any point: no list of borders is kept. The buffer is address space for the largest packet; only
// the used part is touched.
//
// Deflate works in the same buffer, after the finished frames. A frame's header precedes data of
// unknown length, and therefore has two lengths of a fixed number of bytes. Each chunk is a
// separate zlib stream with at most CHUNK_MAX bytes of packets: a reader can start at any chunk,
// and a cut costs at most one chunk.
#include "producer/trace/trace_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ZLIB_CONST
#include <zlib.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/memory.h"
#include "common/page_release.h"
#include "common/str.h"
#include "common/wire.h"
#include "producer/trace/disk.h"
#include "protos/fields.h"

#define WRITE_BYTES     ((size_t)128 << 10) // bytes gathered before a write
#define CHUNK_MAX       ((size_t)256 << 10) // bytes of packets in one compressed packet
#define FRAME_MAX       (1 + WIRE_VARINT_MAX)
#define TRACE_FILE_MODE 0600 // a trace tells about the programs of all users
#define LENGTH_BYTES    4    // of the fixed-size lengths of a chunk
#define CHUNK_HEADER    (1 + LENGTH_BYTES + 2 + LENGTH_BYTES)
#define DEFLATE_LEVEL   6
#define PACKET_TAG      (PB_Trace_packet << 3 | WIRE_BYTES)
#define COMPRESSED_TAG  (PB_TracePacket_compressed_packets << 3 | WIRE_BYTES)

struct trace_file {
    int fd;     // owned
    char *name; // owned
    struct trace_file_options options;
    struct trace_file_stats stats;
    bool is_regular;
    bool was_linked;   // a name has led to the file
    bool would_block;  // neither regular nor non-blocking
    uint64_t start;    // offset of our first byte in a regular file
    uint64_t accepted; // bytes of all finished frames
    int failed;        // the error that ended writing
    bool full;

    uint8_t *out; // owned, mapped
    size_t capacity;
    size_t used;  // bytes of finished frames
    size_t sent;  // written part of `used`
    bool copying; // `out` has pieces of another trace, not whole frames

    // The job of the disk thread: bytes from `sent` on. Later packets go after these bytes.
    struct disk_job job;
    size_t job_size, job_written;
    bool job_syncs;
    int job_result;
    uint64_t synced; // the part of stats.bytes_written that is on the disk
    int no_room;     // reason of the last TRACE_FILE_NO_ROOM
    void (*ready)(void *userdata);
    void *userdata;

    bool has_zlib;
    bool chunk_open;
    size_t chunk_input; // bytes of packets in the open chunk
    size_t chunk_bound; // maximum size of CHUNK_MAX bytes, deflated
    z_stream zlib;
};

DEFINE_CLEANUP(trace_file_freep, struct trace_file, trace_file_free);

static int open_error(struct err *err, const char *path, int r)
{
    if (r == -EEXIST) {
        err_set(err, r, "%s: exists already", path);
        return err_hint(err, r, "remove it or choose another name");
    }
    if (r != -ENOENT)
        return err_errno(err, r, "%s", path);
    const char *slash = strrchr(path, '/');
    CLEANUP(freep) char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : NULL;
    struct stat st;
    if (!slash || (folder && stat(folder, &st) == 0))
        return err_set(err, r, "%s: No file can be made there", path);
    err_set(err, r, "%s: No such directory", path);
    return err_hint(err, r, "create %.*s", (int)(slash - path), path);
}

// Opens an existing name. In a folder that everybody may write to, a file of another user would
// show the trace to that user. The check comes before the open, because an open alone wakes the
// reader of a pipe.
static int open_existing(const struct path_end *end, bool *ret_strange)
{
    struct stat st;
    int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | (end->is_magic ? 0 : O_NOFOLLOW);
    if (fstatat(end->folder, end->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if ((*ret_strange = path_end_is_strangers(end, &st)))
        return -EPERM;
    CLEANUP(close_fdp) int fd = openat(end->folder, end->name, flags);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!end->is_magic && (*ret_strange = path_end_is_strangers(end, &st)))
        return -EPERM;
    return S_ISREG(st.st_mode) && ftruncate(fd, 0) < 0 ? -errno : steal_fd(&fd);
}

// A link of another user would lead root anywhere.
static int open_by_name(const char *path, bool no_clobber, struct path_end *end, bool *ret_strange)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY;
    int fd = path_walk(path, !no_clobber, NULL, end);
    if (fd < 0)
        return fd;
    do {
        fd = openat(end->folder, end->name, flags, TRACE_FILE_MODE);
        if (fd < 0 && errno == EEXIST && !no_clobber)
            fd = open_existing(end, ret_strange);
        else if (fd < 0)
            fd = -errno;
    } while (fd == -EINTR);
    return fd;
}

int trace_file_open(const char *path, bool no_clobber, int *ret_fd, struct err *err)
{
    if (str_eq(path, "-")) {
        if (isatty(STDOUT_FILENO)) {
            err_set(err, -EINVAL, "Standard output is a terminal, a trace is binary");
            return err_hint(err, -EINVAL, "redirect it to a file or a pipe");
        }
        int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
            return err_errno(err, -errno, "Standard output");
        *ret_fd = fd;
        return 0;
    }
    bool is_strange = false;
    CLEANUP(path_end_done) struct path_end end = PATH_END_INIT;
    int fd = open_by_name(path, no_clobber, &end, &is_strange);
    if (end.part)
        return path_walk_error(path, &end, err);
    if (is_strange) {
        err_set(err, fd, "%s: is a file of another user in a folder that everybody can write to",
                path);
        return err_hint(err, fd, "remove it or choose another name");
    }
    if (fd < 0)
        return open_error(err, path, fd);
    *ret_fd = fd;
    return 0;
}

// A file without a name may never have had a name (memfd_create(), O_TMPFILE), or was deleted
// directly after its creation. In the first case `path` is a link below /proc and still leads to
// the file.
static bool has_had_name(const struct stat *st, const char *path)
{
    struct stat now;
    if (st->st_nlink > 0 || !path)
        return st->st_nlink > 0;
    return stat(path, &now) < 0 || now.st_dev != st->st_dev || now.st_ino != st->st_ino;
}

static int inspect_fd(struct trace_file *file, int fd, struct err *err)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", file->name);
    if ((flags & O_ACCMODE) == O_RDONLY)
        return err_set(err, -EBADF, "%s: not open for writing", file->name);
    file->is_regular = S_ISREG(st.st_mode);
    file->was_linked = has_had_name(&st, file->options.path);
    file->would_block = !file->is_regular && !(flags & O_NONBLOCK);
    if (file->is_regular) {
        off_t offset = flags & O_APPEND ? st.st_size : lseek(fd, 0, SEEK_CUR);
        if (offset < 0)
            return err_errno(err, -errno, "%s", file->name);
        file->start = (uint64_t)offset;
    }
    return 0;
}

// Runs in the disk thread.

static int sync_data(const struct trace_file *file)
{
    if (fdatasync(file->fd) < 0)
        return -errno;
    posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
    return 0;
}

static void work_for_file(struct disk_job *job)
{
    struct trace_file *file = job->owner;
    file->job_result = 0;
    file->job_written = 0;
    while (file->job_written < file->job_size) {
        ssize_t n = write(file->fd, file->out + file->sent + file->job_written,
                          file->job_size - file->job_written);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            file->job_result = n < 0 ? -errno : -EIO;
            return;
        }
        file->job_written += (size_t)n;
    }
    if (file->job_syncs)
        file->job_result = sync_data(file);
}

// Takes over the thread's result.
static void collect(struct trace_file *file)
{
    file->sent += file->job_written;
    file->stats.bytes_written += file->job_written;
    if (file->job_syncs && file->job_result == 0)
        file->synced = file->stats.bytes_written;
    file->job_size = file->job_written = 0;
    file->job_syncs = false;
}

static void job_done(struct disk_job *job)
{
    struct trace_file *file = job->owner;
    collect(file);
    if (file->ready)
        file->ready(file->userdata);
}

static int prepare_deflate(struct trace_file *file, struct err *err)
{
    if (deflateInit(&file->zlib, DEFLATE_LEVEL) != Z_OK)
        return err_errno(err, -ENOMEM, "%s: deflate", file->name);
    file->has_zlib = true;
    file->chunk_bound = deflateBound(&file->zlib, CHUNK_MAX);
    return 0;
}

int trace_file_new(int fd, const struct trace_file_options *options, struct trace_file **ret,
                   struct err *err)
{
    CLEANUP(trace_file_freep) struct trace_file *file = memory_calloc(1, sizeof(*file));
    if (!file)
        return err_errno(err, -ENOMEM, "%s", options->name);
    file->fd = -1;
    file->options = *options;
    file->options.name = file->name = strdup(options->name);
    if (!file->name)
        return err_errno(err, -ENOMEM, "%s", options->name);
    int r = inspect_fd(file, fd, err);
    file->options.path = NULL;
    if (r == 0 && options->deflate)
        r = prepare_deflate(file, err);
    if (r < 0)
        return r;
    file->capacity = WRITE_BYTES + TRACE_FILE_PACKET_MAX + FRAME_MAX;
    void *memory = mmap(NULL, file->capacity, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return err_errno(err, -errno, "%s: output buffer", file->name);
    file->out = memory;
    file->fd = fd;
    if (!file->is_regular)
        file->options.disk = NULL;
    file->job = (struct disk_job){.work = work_for_file, .done = job_done, .owner = file};
    *ret = STEAL(file);
    return 0;
}

struct trace_file *trace_file_free(struct trace_file *file)
{
    if (!file)
        return NULL;
    int saved = errno;
    if (file->options.disk)
        disk_wait(file->options.disk, &file->job);
    if (file->has_zlib)
        deflateEnd(&file->zlib);
    if (file->out)
        munmap(file->out, file->capacity);
    close_fd(file->fd);
    free(file->name);
    free(file);
    errno = saved;
    return NULL;
}

// Returns the end of the last whole frame among the first `sent` bytes of the output buffer.
static size_t last_border(const struct trace_file *file)
{
    const uint8_t *start = file->out, *end = file->out + file->sent, *border = start;
    while (border < end) {
        const uint8_t *p = border + 1; // the tag
        uint64_t size;
        if (!wire_get_varint(&p, end, &size) || size > (size_t)(end - p))
            break;
        border = p + size;
    }
    return (size_t)(border - start);
}

// Returns whether the failure may pass, for example when a user frees space or makes a file system
// writable again.
static bool may_pass(int r)
{
    return r == -ENOSPC || r == -EDQUOT || r == -EFBIG || r == -EROFS;
}

// Returns the full path of a regular file, for messages about its file system; otherwise its name.
static const char *full_name(const struct trace_file *file, char ret[PATH_MAX])
{
    char self[64];
    snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
    ssize_t n = file->is_regular && file->was_linked ? readlink(self, ret, PATH_MAX - 1) : -1;
    if (n <= 0 || *ret != '/')
        return file->name;
    ret[n] = '\0';
    return ret;
}

// Ends all writing. Cuts off a half-written packet if possible.
static int fail(struct trace_file *file, int r, struct err *err)
{
    file->failed = r;
    size_t torn = file->copying ? 0 : file->sent - last_border(file);
    uint64_t end = file->start + file->stats.bytes_written;
    struct stat st;
    if (file->is_regular && torn && fstat(file->fd, &st) == 0 && (uint64_t)st.st_size == end &&
        ftruncate(file->fd, (off_t)(end - torn)) == 0)
        file->stats.bytes_written -= torn;
    file->used = file->sent = 0;
    file->chunk_open = false;
    if (r == -ENOENT)
        return err_set(err, r, "%s: deleted while it was being written", file->name);
    if (r == -ETIMEDOUT)
        return err_set(err, r, "%s: the reader did not take the rest in time", file->name);
    char full[PATH_MAX];
    err_errno(err, r, "%s", may_pass(r) ? full_name(file, full) : file->name);
    if (file->is_regular)
        err_hint(err, r, "its first %" PRIu64 " bytes are a readable trace",
                 file->start + file->stats.bytes_written);
    return r;
}

static int refuse(const struct trace_file *file, struct err *err)
{
    return err_errno(err, file->failed, "%s: not written any more", file->name);
}

// Writes some bytes. Returns their number or a negative errno. A pipe that is ready takes PIPE_BUF
// bytes without blocking.
static ssize_t write_some(const struct trace_file *file)
{
    size_t size = file->used - file->sent;
    if (file->would_block) {
        struct pollfd poll_fd = {.fd = file->fd, .events = POLLOUT};
        if (poll(&poll_fd, 1, 0) == 0)
            return -EAGAIN;
        size = size < PIPE_BUF ? size : PIPE_BUF;
    }
    ssize_t n = write(file->fd, file->out + file->sent, size);
    return n < 0 ? -errno : n;
}

static void release_output(struct trace_file *file)
{
    if (file->used > 2 * WRITE_BYTES + CHUNK_MAX)
        pages_give_back(file->out, file->capacity);
    file->used = file->sent = 0;
    file->copying = false;
}

static int fail_or_wait(struct trace_file *file, int r, struct err *err)
{
    if (!file->options.waits_for_room || !file->is_regular || !may_pass(r))
        return fail(file, r, err);
    file->no_room = r;
    return TRACE_FILE_NO_ROOM;
}

// Returns 0 when all finished frames are written, and on the disk if `sync` is set.
static int drain_on_disk(struct trace_file *file, bool sync, struct err *err)
{
    if (file->job.busy)
        return TRACE_FILE_BLOCKED;
    int r = file->job_result;
    file->job_result = 0;
    if (r < 0)
        return fail_or_wait(file, r, err);
    sync = sync && (file->sent < file->used || file->synced < file->stats.bytes_written);
    if (file->sent < file->used || sync) {
        file->job_size = file->used - file->sent;
        file->job_syncs = sync;
        disk_run(file->options.disk, &file->job);
        return TRACE_FILE_BLOCKED;
    }
    release_output(file);
    return 0;
}

// Writes all finished frames; no chunk is open.
static int drain(struct trace_file *file, struct err *err)
{
    assert(!file->chunk_open);
    if (file->options.disk)
        return drain_on_disk(file, false, err);
    while (file->sent < file->used) {
        ssize_t n = write_some(file);
        if (n == -EINTR)
            continue;
        if (n == -EAGAIN)
            return TRACE_FILE_BLOCKED;
        if (n <= 0)
            return fail_or_wait(file, n < 0 ? (int)n : -EIO, err);
        file->sent += (size_t)n;
        file->stats.bytes_written += (uint64_t)n;
    }
    release_output(file);
    return 0;
}

static uint8_t *put_fixed_length(uint8_t *p, size_t value)
{
    for (int i = 0; i < LENGTH_BYTES; i++, value >>= 7)
        *p++ = (uint8_t)((value & 0x7f) | (i < LENGTH_BYTES - 1 ? 0x80 : 0));
    return p;
}

static void deflate_input(struct trace_file *file, const void *data, size_t size, int flush)
{
    file->zlib.next_in = data;
    file->zlib.avail_in = (uInt)size;
    int z = deflate(&file->zlib, flush);
    // chunk_bound bytes of room are reserved for every chunk, so that deflate() cannot fail.
    assert(z == (flush == Z_FINISH ? Z_STREAM_END : Z_OK) && file->zlib.avail_in == 0);
    (void)z;
}

static void open_chunk(struct trace_file *file)
{
    deflateReset(&file->zlib);
    file->zlib.next_out = file->out + file->used + CHUNK_HEADER;
    file->zlib.avail_out = (uInt)file->chunk_bound;
    file->chunk_open = true;
    file->chunk_input = 0;
}

static void close_chunk(struct trace_file *file)
{
    if (!file->chunk_open)
        return;
    deflate_input(file, NULL, 0, Z_FINISH);
    size_t size = file->chunk_bound - file->zlib.avail_out;
    uint8_t *p = file->out + file->used;
    p = wire_put_varint(p, PACKET_TAG);
    p = put_fixed_length(p, CHUNK_HEADER - 1 - LENGTH_BYTES + size);
    p = wire_put_varint(p, COMPRESSED_TAG);
    put_fixed_length(p, size);
    file->used += CHUNK_HEADER + size;
    file->accepted += CHUNK_HEADER + size;
    file->chunk_open = false;
}

// Returns whether the file stays within its limit with `bytes` more bytes of framed packets.
static bool fits(struct trace_file *file, size_t bytes, bool compress)
{
    uint64_t limit = file->options.max_size_bytes;
    if (!limit)
        return true;
    size_t deflated = (file->chunk_open ? file->chunk_input : 0) + (compress ? bytes : 0);
    uint64_t more = compress ? 0 : bytes;
    if (deflated)
        more += CHUNK_HEADER + deflateBound(&file->zlib, deflated);
    return file->accepted + more <= limit;
}

// Makes `bytes` of room after the finished frames.
static int make_room(struct trace_file *file, size_t bytes, struct err *err)
{
    if (file->used < WRITE_BYTES && bytes <= file->capacity - file->used)
        return 0;
    int r = drain(file, err);
    if (r == TRACE_FILE_BLOCKED && bytes <= file->capacity - file->used &&
        file->used < 2 * WRITE_BYTES)
        return 0;
    return r;
}

static int add_raw(struct trace_file *file, const uint8_t *header, size_t header_size,
                   const struct packet_view *packet, struct err *err)
{
    close_chunk(file);
    int r = make_room(file, header_size + packet->size, err);
    if (r)
        return r;
    memcpy(file->out + file->used, header, header_size);
    if (packet->size)
        memcpy(file->out + file->used + header_size, packet->data, packet->size);
    file->used += header_size + packet->size;
    file->accepted += header_size + packet->size;
    return 0;
}

static int add_deflated(struct trace_file *file, const uint8_t *header, size_t header_size,
                        const struct packet_view *packet, struct err *err)
{
    if (!file->chunk_open) {
        int r = make_room(file, CHUNK_HEADER + file->chunk_bound, err);
        if (r)
            return r;
        open_chunk(file);
    }
    deflate_input(file, header, header_size, Z_NO_FLUSH);
    if (packet->size)
        deflate_input(file, packet->data, packet->size, Z_NO_FLUSH);
    file->chunk_input += header_size + packet->size;
    return 0;
}

int trace_file_add(struct trace_file *file, const struct packet_view *packet, struct err *err)
{
    if (file->failed)
        return refuse(file, err);
    if (file->full)
        return TRACE_FILE_FULL;
    if (packet->size > TRACE_FILE_PACKET_MAX) {
        file->stats.packets_too_large++;
        return 0;
    }
    uint8_t header[FRAME_MAX] = {PACKET_TAG};
    size_t header_size = (size_t)(wire_put_varint(header + 1, packet->size) - header);
    size_t framed = header_size + packet->size;
    bool compress = file->options.deflate && framed <= CHUNK_MAX;
    if (compress && file->chunk_open && file->chunk_input + framed > CHUNK_MAX)
        close_chunk(file);
    if (!fits(file, framed, compress)) {
        close_chunk(file); // the chunk turned out smaller than its maximum
        if (!fits(file, framed, compress)) {
            file->full = true;
            return TRACE_FILE_FULL;
        }
    }
    int r = compress ? add_deflated(file, header, header_size, packet, err)
                     : add_raw(file, header, header_size, packet, err);
    if (r == 0)
        file->stats.packets++;
    return r;
}

static ssize_t read_at(int fd, void *bytes, size_t size, uint64_t offset)
{
    ssize_t n;
    do
        n = pread(fd, bytes, size, (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n == 0 ? -EIO : n;
}

int trace_file_copy(struct trace_file *file, int from_fd, uint64_t *offset, uint64_t end,
                    struct err *err)
{
    if (file->failed)
        return refuse(file, err);
    assert(!file->chunk_open && file->stats.packets == 0);
    int r = drain(file, err);
    if (r)
        return r;
    uint64_t left = end - *offset;
    ssize_t n =
        read_at(from_fd, file->out, left < WRITE_BYTES ? (size_t)left : WRITE_BYTES, *offset);
    if (n < 0) {
        fail(file, (int)n, NULL);
        return err_errno(err, (int)n, "%s: the earlier part of the trace cannot be copied",
                         file->name);
    }
    file->copying = true;
    file->used = (size_t)n;
    file->accepted += (uint64_t)n;
    *offset += (uint64_t)n;
    r = drain(file, err);
    return r < 0 ? r : 0;
}

static int flush(struct trace_file *file, bool sync, struct err *err)
{
    if (file->failed)
        return refuse(file, err);
    close_chunk(file);
    int r = file->options.disk ? drain_on_disk(file, sync, err) : drain(file, err);
    if (r)
        return r;
    struct stat st;
    if (file->was_linked && fstat(file->fd, &st) == 0 && st.st_nlink == 0)
        return fail(file, -ENOENT, err);
    if (!sync || !file->is_regular || file->options.disk)
        return 0;
    r = sync_data(file);
    return r < 0 ? fail(file, r, err) : 0;
}

int trace_file_flush(struct trace_file *file, struct err *err)
{
    return flush(file, file->options.sync, err);
}

int trace_file_sync(struct trace_file *file, struct err *err)
{
    return flush(file, true, err);
}

static void await_disk(struct trace_file *file)
{
    if (!file->job.busy)
        return;
    disk_wait(file->options.disk, &file->job);
    collect(file);
}

int trace_file_flush_now(struct trace_file *file, struct err *err)
{
    struct disk *disk = file->options.disk;
    await_disk(file);
    file->options.disk = NULL;
    int r = trace_file_flush(file, err);
    file->options.disk = disk;
    return r;
}

void trace_file_set_ready(struct trace_file *file, void (*ready)(void *userdata), void *userdata)
{
    file->ready = ready;
    file->userdata = userdata;
}

bool trace_file_has_disk(const struct trace_file *file)
{
    return file->options.disk;
}

bool trace_file_is_busy(const struct trace_file *file)
{
    return file->job.busy;
}

int trace_file_no_room(const struct trace_file *file)
{
    return file->no_room;
}

static int wait_writable(struct trace_file *file, nsec_t deadline, struct err *err)
{
    nsec_t left = deadline == NSEC_MAX ? NSEC_MAX : deadline - nsec_now(CLOCK_MONOTONIC);
    if (left <= 0)
        return fail(file, -ETIMEDOUT, err);
    struct timespec timeout = nsec_to_timespec(left);
    struct pollfd poll_fd = {.fd = file->fd, .events = POLLOUT};
    if (ppoll(&poll_fd, 1, left == NSEC_MAX ? NULL : &timeout, NULL) < 0 && errno != EINTR)
        return fail(file, -errno, err);
    return 0;
}

int trace_file_finish(struct trace_file *file, nsec_t timeout, struct err *err)
{
    nsec_t deadline;
    if (__builtin_add_overflow(nsec_now(CLOCK_MONOTONIC), timeout, &deadline))
        deadline = NSEC_MAX;
    int r;
    while ((r = trace_file_flush(file, err)) == TRACE_FILE_BLOCKED) {
        if (file->job.busy)
            await_disk(file);
        else if ((r = wait_writable(file, deadline, err)) < 0)
            break;
    }
    if (r == TRACE_FILE_NO_ROOM)
        r = fail(file, file->no_room, err);
    int fd = steal_fd(&file->fd);
    if (fd >= 0 && close(fd) < 0 && errno != EINTR && r == 0) {
        r = err_errno(err, -errno, "%s", file->name);
        file->failed = r;
    }
    return r;
}

int trace_file_fd(const struct trace_file *file)
{
    return file->fd;
}

void trace_file_get_stats(const struct trace_file *file, struct trace_file_stats *ret)
{
    *ret = file->stats;
    ret->start = file->start;
    ret->bytes_waiting = file->used - file->sent;
}
