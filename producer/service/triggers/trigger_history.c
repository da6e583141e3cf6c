// SPDX-License-Identifier: Apache-2.0
//
// In the process, times are boot time, which nobody can set. In the file they are the time of day,
// the only time that is valid after a reboot. Future times in the file, because the clock was set
// back meanwhile, count as now: then the limit holds for 24 hours at most, and never forever.
//
// A name is kept as a hash: a name may have any bytes, but a line of the file may not.
#include "producer/service/triggers/trigger_history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "common/fnv.h"
#include "common/str.h"

#define DAY           (24 * 3600 * NSEC_PER_SEC)
#define FILE_NAME     "trigger_history"
#define FILE_SIZE_MAX ((size_t)TRIGGER_HISTORY_MAX * 64)
#define FILE_HEADER   "# mmtrace: time of day in ns, hash of the trigger's name\n"

static uint64_t hash_name(const char *name)
{
    return fnv_add(FNV_BEGIN, name, strlen(name));
}

static void forget_old(struct trigger_history *history, nsec_t boot)
{
    size_t n = 0;
    for (size_t i = 0; i < history->times.n; i++)
        if (history->times.items[i].time > boot - DAY)
            history->times.items[n++] = history->times.items[i];
    history->times.n = n;
}

static int push(struct trigger_history *history, struct trigger_time time)
{
    if (history->times.n >= TRIGGER_HISTORY_MAX) {
        history->times.n = TRIGGER_HISTORY_MAX - 1;
        memmove(&history->times.items[0], &history->times.items[1],
                history->times.n * sizeof(history->times.items[0]));
    }
    return trigger_time_vec_push(&history->times, time);
}

size_t trigger_history_count(struct trigger_history *history, const char *name,
                             struct trigger_now now)
{
    uint64_t hash = hash_name(name);
    size_t n = 0;
    forget_old(history, now.boot);
    for (size_t i = 0; i < history->times.n; i++)
        n += history->times.items[i].name == hash;
    return n;
}

int trigger_history_add(struct trigger_history *history, const char *name, struct trigger_now now)
{
    return push(history, (struct trigger_time){.time = now.boot, .name = hash_name(name)});
}

void trigger_history_done(struct trigger_history *history)
{
    trigger_time_vec_done(&history->times);
}

static bool parse_line(const char *line, size_t size, struct trigger_now now,
                       struct trigger_time *ret)
{
    char copy[64];
    if (size >= sizeof(copy))
        return false;
    memcpy(copy, line, size);
    copy[size] = '\0';
    uint64_t real, hash;
    char *space = strchr(copy, ' ');
    if (!space || strlen(copy) != size)
        return false;
    *space = '\0';
    if (str_parse_u64(copy, &real) < 0 || str_parse_u64(space + 1, &hash) < 0 || real > INT64_MAX)
        return false;
    nsec_t age = (nsec_t)real < now.real ? now.real - (nsec_t)real : 0;
    *ret = (struct trigger_time){.time = now.boot - age, .name = hash};
    return age < DAY;
}

int trigger_history_parse(struct trigger_history *history, const char *text, size_t size,
                          struct trigger_now now)
{
    int r = 0;
    for (const char *end = text + size; r == 0 && text < end;) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        if (!line_end)
            line_end = end;
        struct trigger_time time;
        if (parse_line(text, (size_t)(line_end - text), now, &time))
            r = push(history, time);
        text = line_end + 1;
    }
    return r;
}

int trigger_history_load(struct trigger_history *history, const char *dir, struct trigger_now now,
                         struct err *err)
{
    struct strbuf path CLEANUP(strbuf_done) = {0}, text CLEANUP(strbuf_done) = {0};
    strbuf_addf(&path, "%s/" FILE_NAME, dir);
    if (path.failed)
        return err_errno(err, -ENOMEM, "%s", dir);
    int fd CLEANUP(close_fdp) = open(path.text, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(err, -errno, "%s", path.text);
    int r = fd_read_all(fd, FILE_SIZE_MAX, &text);
    if (r == 0 || r == -EFBIG) // a longer file is read up to the limit
        r = trigger_history_parse(history, text.text, text.size, now);
    return r < 0 ? err_errno(err, r, "%s", path.text) : 0;
}

int trigger_history_write(const char *dir, const struct strbuf *text)
{
    char path[PATH_MAX], temporary[PATH_MAX];
    int n = snprintf(temporary, sizeof(temporary), "%s/" FILE_NAME ".new", dir);
    if (n < 0 || (size_t)n >= sizeof(temporary))
        return -ENAMETOOLONG;
    snprintf(path, sizeof(path), "%.*s", n - (int)strlen(".new"), temporary);
    unlink(temporary);
    int fd CLEANUP(close_fdp) =
        open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, text->text, text->size);
    if (r == 0 && fsync(fd) < 0) // before the rename: a reset must not leave an empty file
        r = -errno;
    if (r == 0 && rename(temporary, path) < 0)
        r = -errno;
    if (r < 0)
        unlink(temporary);
    return r;
}

int trigger_history_text(const struct trigger_history *history, struct trigger_now now,
                         struct strbuf *ret)
{
    strbuf_clear(ret);
    strbuf_add_str(ret, FILE_HEADER);
    for (size_t i = 0; i < history->times.n; i++) {
        const struct trigger_time *time = &history->times.items[i];
        nsec_t real = now.real - (now.boot - time->time);
        if (real >= 0)
            strbuf_addf(ret, "%" PRId64 " 0x%016" PRIx64 "\n", (int64_t)real, time->name);
    }
    return ret->failed ? -ENOMEM : 0;
}
