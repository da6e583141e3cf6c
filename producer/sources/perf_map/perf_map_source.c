// SPDX-License-Identifier: Apache-2.0
//
// The value of a map depends on its last lines, and its process may end at any moment. Therefore
// each map is read piece by piece while it grows, once more when its process has ended, and to its
// end when the recording ends. Pieces that the buffer refuses are read again at the next look.
//
// A helper reads the maps. Each map has one request under way at a time. A look that finds much
// data asks again until the map has had its share. A map that does not answer does not delay the
// others.
//
// A ring keeps the pieces beside itself, as far as there is room: without the old pieces, old
// samples have no names.
#include "producer/sources/source.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/folder.h"
#include "common/vec.h"
#include "producer/foreign/foreign_budget.h"
#include "producer/foreign/helper.h"
#include "producer/foreign/path.h"
#include "producer/foreign/payer.h"
#include "producer/foreign/process_file.h"
#include "producer/ground/ids.h"
#include "producer/ground/process_life.h"
#include "producer/sources/perf_map/perf_map_job.h"
#include "producer/sources/requester.h"
#include "protos/fields.h"

#define PERIOD_MS     500
#define PERIOD_MIN_MS 10
#define MAX_MAP_KB    65536
#define LOOK_BYTES    ((size_t)4 << 20) // of one map per look: others wait meanwhile
#define MAPS_MAX      1024
#define MAPS_OF_ONE   256 // per user
#define SHARE_OF_ONE  4   // multiples of max_map_kb, per user
#define FLUSH_WAIT    (500 * NSEC_PER_MSEC)
#define STOP_WAIT     (3 * NSEC_PER_SEC)
#define STOP_TIME     (500 * NSEC_PER_MSEC) // for one piece
#define CUTS_TOLD_MAX 8                     // lines of the log
#define CUTS_OF_ONE   4 // packets about cut maps of one process without any text in the trace

struct perf_map_source;

struct watched_map {
    struct perf_map_source *maps; // borrowed
    struct perf_map_ask ask;
    uint64_t payer;
    char path[PERF_MAP_PATH_MAX];
    uint32_t id; // 0: none yet
    int root_fd; // owned; -1: the helper holds it
    struct foreign_call *call;
    size_t rest;     // bytes that may still come at this look
    uint64_t n_left; // unread bytes at the last answer
    bool is_whole;   // the last reading reached the end
    bool is_refused, is_allowed;
    bool is_forbidden;      // for the requester
    bool cut_told, is_done; // is_done: no more data will come
    bool cut_logged;        // of this map, or an earlier map of the process; n_cuts too
    unsigned n_cuts;
};
VEC_DEFINE(watched_map_vec, struct watched_map *);

struct perf_map_source {
    struct source_env env;
    const Pb__PerfMapConfig *config; // borrowed; NULL: the profiled processes
    struct watched_map_vec maps;     // owned
    struct budget count, bytes;
    struct loop_timer *timer;
    nsec_t period;
    uint64_t max_bytes, n_packets, n_lost;
    uint64_t n_unread, unread_bytes; // ends of maps that were not read
    uint64_t n_cuts_logged;
    uint64_t n_allowed; // processes whose files may be read
    char problem[256];  // why the first refused process may not be read
    uint32_t n_maps;
    bool full_told, is_stopping;
};

static void map_free(struct watched_map *map)
{
    foreign_call_cancel(map->call);
    budget_give(&map->maps->count, map->payer, 1);
    close_fd(map->root_fd);
    free(map);
}

static bool is_watched(const struct perf_map_source *maps, int32_t pid)
{
    vec_foreach(&maps->maps, known)
        if ((*known)->ask.process.pid == pid && !(*known)->ask.ended)
            return true;
    return false;
}

static struct watched_map *map_new(struct perf_map_source *maps, int32_t pid, struct err *err)
{
    struct perf_map_process process;
    const char *proc = maps->env.roots->proc;
    if (perf_map_process_read(&process, proc, pid) < 0)
        return NULL;
    uint64_t payer = foreign_payer(proc, pid, process.uid);
    struct watched_map *map = calloc(1, sizeof(*map));
    if (!map || watched_map_vec_reserve(&maps->maps, maps->maps.n + 1) < 0 ||
        budget_take(&maps->count, payer, 1, 0, err) < 0) {
        free(map);
        return NULL;
    }
    int root_fd = foreign_root(proc, pid);
    *map = (struct watched_map){.maps = maps,
                                .ask = {.process = process},
                                .payer = payer,
                                .root_fd = root_fd < 0 ? -1 : root_fd};
    watched_map_vec_push(&maps->maps, map);
    return map;
}

enum piece { PIECE_TEXT, PIECE_TIMES, PIECE_CUT, PIECE_UNREAD, PIECE_REFUSED };

static bool piece_write(struct perf_map_source *maps, const struct watched_map *map,
                        enum piece piece, const char *text, size_t size)
{
    const struct perf_map_ask *ask = &map->ask;
    struct wire_writer *w =
        packet_writer_begin_message(maps->env.writer, nsec_now(CLOCK_BOOTTIME),
                                    size + sizeof(map->path) + 96, PB_TracePacket_perf_map);
    if (!w)
        return false;
    wire_uint(w, PB_PerfMap_pid, (uint64_t)ask->process.pid);
    if (map->id) {
        wire_uint(w, PB_PerfMap_map_id, map->id);
        wire_string(w, PB_PerfMap_path, map->path);
    }
    if (piece == PIECE_TIMES) {
        wire_uint(w, PB_PerfMap_times_offset, ask->times_offset);
        wire_bytes(w, PB_PerfMap_times, text, size);
    } else if (piece != PIECE_REFUSED) {
        wire_uint(w, PB_PerfMap_offset, ask->offset);
        if (size)
            wire_bytes(w, PB_PerfMap_text, text, size);
    }
    if (piece == PIECE_CUT)
        wire_uint(w, PB_PerfMap_cut, 1);
    if (piece == PIECE_UNREAD)
        wire_uint(w, PB_PerfMap_unread_bytes, map->n_left);
    if (piece == PIECE_REFUSED)
        wire_uint(w, PB_PerfMap_refused, 1);
    maps->n_packets++;
    return packet_writer_end_retained(maps->env.writer, PACKET_RETAIN_APPEND, map->id);
}

// Logs the first refusal. The trace notes all refusals.
static void refusal_tell(struct watched_map *map, const char *why, const char *how)
{
    struct perf_map_source *maps = map->maps;
    if (map->is_refused)
        return;
    map->is_refused = true;
    piece_write(maps, map, PIECE_REFUSED, NULL, 0);
    if (maps->problem[0])
        return;
    snprintf(maps->problem, sizeof(maps->problem), "linux.perf_map: process %d of user %u: %s (%s)",
             map->ask.process.pid, (unsigned)map->ask.process.uid, why, how);
    log_warning(maps->env.log, "%s; maps of similar processes are left out, too", maps->problem);
}

static void map_ask(struct watched_map *map, size_t limit);

static void requester_refuse(struct watched_map *map)
{
    map->is_forbidden = true;
    refusal_tell(map, "the user who asked for its perf map may not trace it", "root may");
}

static void process_add(void *userdata, int32_t pid)
{
    struct perf_map_source *maps = userdata;
    struct err err = {0};
    if (is_watched(maps, pid))
        return;
    struct watched_map *map = map_new(maps, pid, &err);
    if (map && requester_may_trace(maps->env.requester, maps->env.roots->proc, pid))
        map_ask(map, LOOK_BYTES);
    else if (map)
        requester_refuse(map);
    if (err.text[0] && !maps->full_told) {
        log_warning(maps->env.log, "linux.perf_map: %s: other processes are left out", err.text);
        maps->full_told = true;
    }
}

static bool is_wanted(const struct perf_map_source *maps, int32_t pid)
{
    for (size_t i = 0; i < maps->config->n_pids; i++)
        if (maps->config->pids[i] == pid)
            return true;
    return process_is_called(maps->env.roots->proc, pid, maps->config->process_cmdlines,
                             maps->config->n_process_cmdlines) > 0;
}

static void processes_look(struct perf_map_source *maps)
{
    DIR *dir CLEANUP(closedirp) = maps->config ? opendir(maps->env.roots->proc) : NULL;
    for (int32_t pid; (pid = process_next(dir));)
        if (is_wanted(maps, pid))
            process_add(maps, pid);
}

static void cut_tell(struct perf_map_source *maps, struct watched_map *map, const struct err *err)
{
    if (map->cut_told)
        return;
    map->cut_told = true;
    // Limits the packets: a process can replace its map, or itself, at each look.
    if (map->ask.offset > 0 || map->n_cuts++ < CUTS_OF_ONE)
        piece_write(maps, map, PIECE_CUT, NULL, 0);
    if (map->cut_logged || maps->n_cuts_logged == CUTS_TOLD_MAX)
        return;
    map->cut_logged = true;
    maps->n_cuts_logged++;
    if (err->text[0])
        log_warning(maps->env.log,
                    "linux.perf_map: process %d: %s: the rest of its map is left out "
                    "(%s)",
                    map->ask.process.pid, err->text, err->hint);
    else
        log_warning(maps->env.log,
                    "linux.perf_map: process %d: its map is larger than %llu KiB: the rest is left "
                    "out (raise max_map_kb)",
                    map->ask.process.pid, (unsigned long long)(maps->max_bytes / 1024));
}

// Writes a piece and moves its offset. Returns false if no more can be taken now.
static bool piece_take(struct perf_map_source *maps, struct watched_map *map, enum piece piece,
                       const char *text, size_t size)
{
    uint64_t *offset = piece == PIECE_TIMES ? &map->ask.times_offset : &map->ask.offset;
    struct err err = {0};
    if (size == 0)
        return true;
    if (*offset + size > maps->max_bytes ||
        budget_take(&maps->bytes, map->payer, size, 0, &err) < 0) {
        cut_tell(maps, map, &err);
        return false;
    }
    if (!piece_write(maps, map, piece, text, size)) {
        budget_give(&maps->bytes, map->payer, size);
        maps->n_lost += map->ask.last;
        return false;
    }
    *offset += size;
    return true;
}

static void ignore(void *userdata, int result, const void *answer, size_t size, int fd)
{
    (void)userdata, (void)result, (void)answer, (void)size;
    close_fd(fd);
}

// Reports the missing end of a map that will not be read any more.
static void end_tell(struct watched_map *map)
{
    struct perf_map_source *maps = map->maps;
    if (map->is_whole || map->is_refused || map->is_done)
        return;
    maps->n_unread++;
    maps->unread_bytes += map->n_left;
    piece_write(maps, map, PIECE_UNREAD, NULL, 0);
}

static void map_forget(struct watched_map *map)
{
    const struct foreign_ask ask = {.job = FOREIGN_PERF_MAP_FORGET,
                                    .payer = map->payer,
                                    .bytes = &map->ask.process,
                                    .size = sizeof(map->ask.process),
                                    .fd = -1};
    end_tell(map);
    map->is_done = true;
    foreign_helper_ask(map->maps->env.helper, &ask, ignore, NULL, NULL, NULL);
}

// Returns false if no more data come at this look.
static bool news_take(struct watched_map *map, const struct perf_map_news *news)
{
    struct perf_map_source *maps = map->maps;
    const char *text = (const char *)(news + 1);
    if (news->is_new) {
        map->id = ++maps->n_maps;
        map->cut_told = false;
        map->ask.offset = map->ask.times_offset = 0;
    }
    map->ask.device = news->device;
    map->ask.inode = news->inode;
    memcpy(map->path, news->path, sizeof(map->path));
    bool goes_on = piece_take(maps, map, PIECE_TEXT, text, news->n_text);
    goes_on &= piece_take(maps, map, PIECE_TIMES, text + news->n_text, news->n_times);
    size_t n = (size_t)news->n_text + news->n_times;
    map->rest -= n < map->rest ? n : map->rest;
    map->n_left = news->n_left > n ? news->n_left - n : 0;
    // cut_tell() has reported data that do not fit.
    map->is_whole = map->ask.last && (n == 0 || map->n_left == 0 || !goes_on);
    return goes_on && n > 0 && map->rest > 0;
}

// Notes whether the process's files may be read, and logs a refusal.
static void right_take(struct watched_map *map, int result, bool is_refused)
{
    if (is_refused || result == -EACCES || result == -EPERM) {
        refusal_tell(map, "the recorder may not look at its files", FOREIGN_RIGHTS_HINT);
    } else if (result == 0 && !map->is_allowed) {
        map->is_allowed = true;
        map->maps->n_allowed++;
    }
    if (result == -ESRCH) // the process ended before it could be examined
        map->is_whole = true;
}

static void read_done(void *userdata, int result, const void *answer, size_t size, int fd)
{
    struct watched_map *map = userdata;
    const struct perf_map_news *news = answer;
    close_fd(fd);
    map->call = NULL;
    bool is_answer = result == 0 && size >= sizeof(*news) &&
                     size == sizeof(*news) + news->n_text + news->n_times;
    right_take(map, result, is_answer && news->refused);
    if (is_answer && news_take(map, news))
        map_ask(map, map->rest);
    else if (map->ask.ended && !map->ask.last && result == 0)
        map_ask(map, map->maps->max_bytes); // the process has ended since the request
    else if (map->ask.ended && result != -ECANCELED)
        map_forget(map);
}

static void map_ask(struct watched_map *map, size_t limit)
{
    struct perf_map_source *maps = map->maps;
    if (map->call || map->is_done)
        return;
    if (map->is_forbidden) {
        map->is_done = map->ask.ended;
        return;
    }
    map->rest = limit;
    map->ask.last = map->ask.ended || maps->is_stopping;
    const struct foreign_ask ask = {.job = FOREIGN_PERF_MAP_READ,
                                    .payer = map->payer,
                                    .bytes = &map->ask,
                                    .size = sizeof(map->ask),
                                    .fd = steal_fd(&map->root_fd),
                                    .time_max = maps->is_stopping ? STOP_TIME : 0};
    if (foreign_helper_ask(maps->env.helper, &ask, read_done, map, &map->call, NULL) < 0) {
        map->call = NULL;
        if (map->ask.ended)
            map_forget(map);
    }
}

static void map_look(struct perf_map_source *maps, struct watched_map *map)
{
    struct process_life life;
    int r = map->ask.ended
                ? 0
                : process_life_in_time(maps->env.roots->proc, map->ask.process.pid, &life);
    if (!map->ask.ended && !process_file_is_late(r))
        map->ask.ended = r < 0 || life.start_ticks != map->ask.process.start_ticks;
    map_ask(map, map->ask.ended ? maps->max_bytes : LOOK_BYTES);
}

static void maps_look(void *userdata)
{
    struct perf_map_source *maps = userdata;
    processes_look(maps);
    vec_foreach(&maps->maps, map)
        map_look(maps, *map);
    for (size_t i = maps->maps.n; i-- > 0;)
        if (maps->maps.items[i]->is_done) {
            map_free(maps->maps.items[i]);
            maps->maps.items[i] = maps->maps.items[--maps->maps.n];
        }
}

static int perf_map_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                         struct source **ret, struct err *err)
{
    const Pb__PerfMapConfig *own = config->perf_map_config;
    if (own && own->has_period_ms && own->period_ms && own->period_ms < PERIOD_MIN_MS)
        return err_set(err, -EINVAL, "period_ms is less than %d", PERIOD_MIN_MS);
    if (!env->helper)
        return err_set(err, -EOPNOTSUPP, "this recorder has no helper to read maps");
    struct perf_map_source *maps = calloc(1, sizeof(*maps));
    if (!maps)
        return -ENOMEM;
    maps->env = *env;
    maps->config = own && (own->n_pids || own->n_process_cmdlines) ? own : NULL;
    maps->max_bytes = own && own->max_map_kb ? own->max_map_kb : MAX_MAP_KB;
    maps->max_bytes *= 1024;
    budget_init(&maps->count, &(struct budget_limits){.what = "processes with perf maps",
                                                      .each_max = MAPS_OF_ONE,
                                                      .all_max = MAPS_MAX});
    budget_init(&maps->bytes, &(struct budget_limits){.what = "bytes of perf maps",
                                                      .how = "raise max_map_kb",
                                                      .each_max = SHARE_OF_ONE * maps->max_bytes});
    maps->period = (own && own->period_ms ? own->period_ms : PERIOD_MS) * NSEC_PER_MSEC;
    *ret = (struct source *)maps;
    return 0;
}

static int perf_map_start(struct source *source, struct err *err)
{
    struct perf_map_source *maps = (struct perf_map_source *)source;
    if (!maps->config && maps->env.pids) {
        maps->env.pids->profiled = process_add;
        maps->env.pids->profiled_userdata = maps;
    }
    maps_look(maps);
    int r = source_add_timer(&maps->env, nsec_now(CLOCK_BOOTTIME) + maps->period, maps->period,
                             maps_look, maps, &maps->timer);
    return r < 0 ? err_errno(err, r, "event loop") : 0;
}

static void perf_map_flush(struct source *source)
{
    struct perf_map_source *maps = (struct perf_map_source *)source;
    maps_look(maps);
    foreign_helper_settle(maps->env.helper, source_wait_until(&maps->env, FLUSH_WAIT));
}

static void listening_end(struct perf_map_source *maps)
{
    struct pid_feed *pids = maps->env.pids;
    if (pids && pids->profiled_userdata == maps)
        pids->profiled = NULL;
    maps->timer = loop_remove_timer(maps->timer);
}

static void perf_map_stop(struct source *source)
{
    struct perf_map_source *maps = (struct perf_map_source *)source;
    listening_end(maps);
    nsec_t deadline = source_wait_until(&maps->env, STOP_WAIT);
    processes_look(maps);
    foreign_helper_settle(maps->env.helper, deadline); // the last requests follow
    maps->is_stopping = true;
    vec_foreach(&maps->maps, map)
        map_ask(*map, maps->max_bytes);
    foreign_helper_settle(maps->env.helper, deadline);
    vec_foreach(&maps->maps, map)
        end_tell(*map);
    if (maps->n_unread)
        log_warning(maps->env.log,
                    "linux.perf_map: %llu ends of maps were not read within %d s (the machine is "
                    "busy, or file systems do not answer): at least %llu KiB are missing, and "
                    "functions in them have no names",
                    (unsigned long long)maps->n_unread, (int)(STOP_WAIT / NSEC_PER_SEC),
                    (unsigned long long)((maps->unread_bytes + 1023) / 1024));
    if (maps->n_lost)
        log_warning(maps->env.log,
                    "linux.perf_map: the buffer was full: the ends of %llu maps are "
                    "lost",
                    (unsigned long long)maps->n_lost);
}

static struct source *perf_map_close(struct source *source)
{
    struct perf_map_source *maps = (struct perf_map_source *)source;
    if (!maps)
        return NULL;
    listening_end(maps);
    vec_foreach(&maps->maps, map)
        map_free(*map);
    watched_map_vec_done(&maps->maps);
    budget_done(&maps->count);
    budget_done(&maps->bytes);
    free(maps);
    return NULL;
}

static void perf_map_counts(const struct source *source, struct source_counts *ret)
{
    const struct perf_map_source *maps = (const struct perf_map_source *)source;
    *ret = (struct source_counts){.events = maps->n_packets,
                                  .events_lost = maps->n_lost + maps->n_unread};
    // Maps of profiled processes are optional: no config asks for them.
    if (maps->config && maps->problem[0] && maps->n_allowed == 0)
        ret->problem = maps->problem;
}

const struct source_class perf_map_class = {
    .name = "linux.perf_map",
    .summary = "names of code that runtimes make (perf-PID.map)",
    .config = SOURCE_CONFIG(perf_map_config),
    .open = perf_map_open,
    .start = perf_map_start,
    .flush = perf_map_flush,
    .stop = perf_map_stop,
    .close = perf_map_close,
    .counts = perf_map_counts,
};
