// SPDX-License-Identifier: Apache-2.0
//
// The log is read twice. The first pass only counts, so that the second pass can skip the oldest
// records: the latest records fit into the limit, and memory is limited to one record. The second
// pass stops where the first did. The first pass stops after RECORDS_MAX, because a chatty kernel
// could prolong it without end.
#include "producer/service/armed/kernel_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

#include "common/cleanup.h"

#define RECORD_MAX  8192 // the kernel refuses smaller reads of its longest records
#define RECORDS_MAX 1000000

int kernel_log_format(const char *record, size_t size, struct strbuf *line, uint64_t *ret_sequence,
                      nsec_t *ret_time)
{
    const char *at = record, *end = record + size;
    uint64_t prefix, sequence, time_us;
    if (!str_scan_u64(&at, end, &prefix) || at == end || *at++ != ',' ||
        !str_scan_u64(&at, end, &sequence) || at == end || *at++ != ',' ||
        !str_scan_u64(&at, end, &time_us) || time_us > (uint64_t)NSEC_MAX / 1000)
        return -EINVAL;
    const char *text = memchr(at, ';', (size_t)(end - at));
    if (!text)
        return -EINVAL;
    text++;
    const char *text_end = memchr(text, '\n', (size_t)(end - text));
    strbuf_clear(line);
    strbuf_addf(line, "<%u>[%5llu.%06llu] ", (unsigned)(prefix & 7),
                (unsigned long long)(time_us / 1000000), (unsigned long long)(time_us % 1000000));
    strbuf_add(line, text, (size_t)((text_end ? text_end : end) - text));
    strbuf_add_char(line, '\n');
    if (line->failed)
        return -ENOMEM;
    *ret_sequence = sequence;
    *ret_time = (nsec_t)time_us * 1000;
    return 0;
}

struct pass {
    int fd;
    const char *path;
    nsec_t since;
    uint64_t last_sequence; // last record of the first pass
    uint64_t n_bytes;
    struct strbuf line;
};

// Reads the next record that is recent enough. Returns 1 with its text in pass->line; 0 at the end;
// or a negative errno with text.
static int next_line(struct pass *pass, uint64_t *ret_sequence, struct err *err)
{
    char record[RECORD_MAX];
    for (;;) {
        ssize_t n = read(pass->fd, record, sizeof(record));
        if (n < 0 &&
            (errno == EINTR || errno == EPIPE)) // EPIPE: overwritten; the next read continues
            continue;
        if (n == 0 || (n < 0 && errno == EAGAIN))
            return 0;
        if (n < 0)
            return err_errno(err, -errno, "%s", pass->path);
        nsec_t time;
        int r = kernel_log_format(record, (size_t)n, &pass->line, ret_sequence, &time);
        if (r == -ENOMEM)
            return err_errno(err, r, "%s", pass->path);
        if (r == 0 && time >= pass->since)
            return 1;
    }
}

static int count(struct pass *pass, struct err *err)
{
    uint64_t sequence;
    int r = 0;
    for (size_t n = 0; n < RECORDS_MAX && (r = next_line(pass, &sequence, err)) > 0; n++) {
        pass->n_bytes += pass->line.size;
        pass->last_sequence = sequence;
    }
    return r < 0 ? r : 0;
}

int kernel_log_read(const char *path, const struct kernel_log_range *range,
                    int (*take)(void *userdata, const char *text, size_t size, struct err *err),
                    void *userdata, struct err *err)
{
    int fd CLEANUP(close_fdp) = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "%s", path);
    struct pass pass = {.fd = fd, .path = path, .since = range->since};
    int r = count(&pass, err);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = err_errno(err, -errno, "%s", path);
    uint64_t left = pass.n_bytes, sequence = 0;
    while (r == 0 && left > 0) {
        r = next_line(&pass, &sequence, err);
        if (r <= 0 || sequence > pass.last_sequence)
            break;
        r = left <= range->max_bytes ? take(userdata, pass.line.text, pass.line.size, err) : 0;
        left -= left < pass.line.size ? left : pass.line.size;
    }
    strbuf_done(&pass.line);
    return r < 0 ? r : 0;
}
