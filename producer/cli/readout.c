// SPDX-License-Identifier: Apache-2.0
//
// Perfetto's service compresses the packets for its clients; mmtrace's daemon leaves compression to
// the client. The first packet tells the kind of service, so the trace file is made when this
// packet arrives. Unread replies wait in the socket: a slow output slows down the service's
// replies, and nothing piles up here.
#include "producer/cli/readout.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/nsec.h"
#include "common/str.h"
#include "common/wire.h"
#include "producer/trace/trace_file.h"
#include "protos/fields.h"

#define SILENCE_MAX (30 * NSEC_PER_SEC)

struct readout {
    int fd; // until the trace file takes it over
    struct trace_file_options options;
    struct trace_file *file;
    struct err err; // error of the file
    int failed;
};

static bool is_compressed(const uint8_t *packet, size_t size)
{
    struct wire_reader reader = wire_reader_over(packet, size);
    struct wire_field field;
    wire_foreach(&reader, &field) {
        if (field.number == PB_TracePacket_compressed_packets)
            return true;
    }
    return false;
}

static int make_file(struct readout *readout)
{
    int r = trace_file_new(readout->fd, &readout->options, &readout->file, &readout->err);
    if (r == 0)
        steal_fd(&readout->fd);
    return r;
}

static int take_packet(void *userdata, const void *bytes, size_t size)
{
    struct readout *readout = userdata;
    struct packet_view packet = {.data = bytes, .size = size};
    int r = 0;
    if (!readout->file) {
        readout->options.deflate &= !is_compressed(bytes, size);
        r = make_file(readout);
    }
    while (r == 0 &&
           (r = trace_file_add(readout->file, &packet, &readout->err)) == TRACE_FILE_BLOCKED) {
        struct pollfd poll_fd = {.fd = trace_file_fd(readout->file), .events = POLLOUT};
        poll(&poll_fd, 1, -1);
        r = 0;
    }
    readout->failed = r < 0 ? r : 0;
    return readout->failed;
}

int readout_to_file(struct ipc_client *client, int fd, const char *name, bool deflate,
                    uint64_t *ret_bytes, struct err *err)
{
    struct readout readout = {.fd = fd, .options = {.name = name, .deflate = deflate}};
    signal(SIGXFSZ, SIG_IGN);
    int r = ipc_client_read_buffers(client, SILENCE_MAX, take_packet, &readout, err);
    if (r == 0 && readout.file)
        r = trace_file_finish(readout.file, NSEC_MAX, err);
    else if (readout.failed)
        r = err_set(err, readout.failed, "%s", readout.err.text);
    struct trace_file_stats stats = {0};
    if (readout.file)
        trace_file_get_stats(readout.file, &stats);
    if (r == 0)
        *ret_bytes = stats.bytes_written;
    trace_file_free(readout.file);
    close_fd(readout.fd);
    return r;
}

int readout_open(const char *path, bool no_clobber, int *ret_fd, struct err *err)
{
    char link[64];
    struct stat st;
    int fd;
    int r = trace_file_open(path, no_clobber, &fd, err);
    if (r < 0)
        return r;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    int readable = -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !str_eq(path, "-"))
        readable = open(link, O_RDWR | O_CLOEXEC);
    if (readable >= 0)
        close_fd(fd);
    *ret_fd = readable >= 0 ? readable : fd;
    return 0;
}

void readout_remove_empty(const char *path)
{
    struct stat st;
    if (path && !str_eq(path, "-") && lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
        st.st_size == 0)
        unlink(path);
}
