// SPDX-License-Identifier: Apache-2.0
//
// A map is as valuable as the last line in it, and its process may end at any moment. So each map
// is read a piece at a time while it grows, a last time when its process has gone, and what is left
// when the recording ends. What the buffer refuses is read again at the next look.
//
// In a ring the pieces are kept beside it, as far as there is room: without the old ones, old
// samples have no names.
#include "producer/sources/perf_map/perf_map_source.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/vec.h"
#include "producer/sources/perf_map/perf_map_file.h"
#include "producer/sources/proc_text.h"
#include "protos/fields.h"

#define PERIOD_MS     500
#define PERIOD_MIN_MS 10
#define MAX_MAP_KB    65536
#define PIECE_BYTES   ((size_t)16384)
#define LOOK_BYTES    ((size_t)4 << 20) // of a map, each time: others wait meanwhile
#define MAPS_MAX      1024
#define CMDLINE_MAX   4096

struct watched_map {
    struct perf_map_file file;
    uint32_t id; // 0: none yet
    bool cut_told;
};
VEC_DEFINE(watched_map_vec, struct watched_map);

struct perf_map_source {
    struct source source;
    struct source_env env;
    const Pb__PerfMapConfig *config; // borrowed; NULL: the profiled processes
    struct watched_map_vec maps;     // owned
    struct loop_timer *timer;
    nsec_t period;
    uint64_t max_bytes, n_packets, n_lost;
    uint32_t n_maps;
    bool full_told;
};

static struct perf_map_source *of_source(struct source *source)
{
    return (struct perf_map_source *)source;
}

static void process_add(void *userdata, int32_t pid)
{
    struct perf_map_source *maps = userdata;
    struct watched_map map = {0};
    vec_foreach(&maps->maps, known)
        if (known->file.pid == pid && !known->file.ended)
            return;
    if (maps->maps.n == MAPS_MAX) {
        if (!maps->full_told)
            log_warning(maps->env.log,
                        "linux.perf_map: more than %d processes; the others are "
                        "left out",
                        MAPS_MAX);
        maps->full_told = true;
        return;
    }
    int r = perf_map_file_open(&map.file, maps->env.roots->proc, pid);
    if (r == 0)
        r = watched_map_vec_push(&maps->maps, map);
    if (r < 0 && r != -ESRCH)
        log_warning(maps->env.log, "linux.perf_map: process %d: %s", pid, strerror(-r));
    if (r < 0)
        perf_map_file_close(&map.file);
}

static bool is_wanted(const struct perf_map_source *maps, int32_t pid)
{
    char text[CMDLINE_MAX];
    for (size_t i = 0; i < maps->config->n_pids; i++)
        if (maps->config->pids[i] == pid)
            return true;
    if (!maps->config->n_process_cmdlines)
        return false;
    ssize_t n =
        text_file_read_once(text, sizeof(text) - 1, maps->env.roots->proc, "/%d/cmdline", pid);
    text[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(text, '/'), *base = slash ? slash + 1 : text;
    for (size_t i = 0; i < maps->config->n_process_cmdlines && n > 0; i++)
        if (fnmatch(maps->config->process_cmdlines[i], text, 0) == 0 ||
            fnmatch(maps->config->process_cmdlines[i], base, 0) == 0)
            return true;
    return false;
}

static void processes_look(struct perf_map_source *maps)
{
    DIR *dir = maps->config ? opendir(maps->env.roots->proc) : NULL;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        int32_t pid = (int32_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && is_wanted(maps, pid))
            process_add(maps, pid);
    }
    if (dir)
        closedir(dir);
}

enum piece { PIECE_TEXT, PIECE_TIMES, PIECE_CUT };

static bool piece_write(struct perf_map_source *maps, const struct watched_map *map,
                        enum piece piece, const char *text, size_t size)
{
    const struct perf_map_file *file = &map->file;
    struct wire_writer *w = packet_writer_begin(maps->env.writer, nsec_now(CLOCK_BOOTTIME),
                                                size + sizeof(file->path) + 96);
    if (!w)
        return false;
    size_t mark = wire_begin(w, PB_TracePacket_perf_map);
    wire_uint(w, PB_PerfMap_pid, (uint64_t)file->pid);
    wire_uint(w, PB_PerfMap_map_id, map->id);
    wire_string(w, PB_PerfMap_path, file->path);
    if (piece == PIECE_TIMES) {
        wire_uint(w, PB_PerfMap_times_offset, file->times_offset);
        wire_bytes(w, PB_PerfMap_times, text, size);
    } else {
        wire_uint(w, PB_PerfMap_offset, file->offset);
        if (size)
            wire_bytes(w, PB_PerfMap_text, text, size);
    }
    if (piece == PIECE_CUT)
        wire_uint(w, PB_PerfMap_cut, 1);
    wire_end(w, mark);
    maps->n_packets++;
    return packet_writer_end_retained(maps->env.writer, PACKET_RETAIN_APPEND, map->id);
}

static void cut_tell(struct perf_map_source *maps, struct watched_map *map)
{
    if (map->cut_told)
        return;
    map->cut_told = true;
    piece_write(maps, map, PIECE_CUT, NULL, 0);
    log_warning(maps->env.log,
                "linux.perf_map: process %d: its map is larger than %llu KiB: the rest is left out "
                "(raise max_map_kb)",
                map->file.pid, (unsigned long long)(maps->max_bytes / 1024));
}

// What is new of the map or of its times, up to `limit` bytes.
static void pieces_read(struct perf_map_source *maps, struct watched_map *map, enum piece piece,
                        size_t limit, bool last)
{
    char text[PIECE_BYTES];
    uint64_t *offset = piece == PIECE_TIMES ? &map->file.times_offset : &map->file.offset;
    for (size_t n, total = 0; total < limit; total += n) {
        n = piece == PIECE_TIMES ? perf_map_times_read(&map->file, text, sizeof(text), last)
                                 : perf_map_file_read(&map->file, text, sizeof(text), last);
        if (!n)
            return;
        if (*offset + n > maps->max_bytes) {
            cut_tell(maps, map);
            return;
        }
        if (!piece_write(maps, map, piece, text, n)) {
            maps->n_lost += last;
            return;
        }
        *offset += n;
    }
}

static void map_read(struct perf_map_source *maps, struct watched_map *map, size_t limit, bool last)
{
    if (perf_map_file_find(&map->file)) {
        map->id = ++maps->n_maps;
        map->cut_told = false;
    }
    pieces_read(maps, map, PIECE_TEXT, limit, last);
    pieces_read(maps, map, PIECE_TIMES, limit, last);
}

static void map_look(struct perf_map_source *maps, struct watched_map *map)
{
    struct perf_map_file *file = &map->file;
    if (file->ended)
        return;
    uint64_t ticks = perf_map_start_ticks(maps->env.roots->proc, file->pid);
    file->ended = ticks != file->start_ticks;
    if (!file->ended)
        perf_map_file_refresh(file, maps->env.roots->proc);
    map_read(maps, map, file->ended ? maps->max_bytes : LOOK_BYTES, file->ended);
    if (file->ended)
        perf_map_file_close(file);
}

static void maps_look(struct perf_map_source *maps)
{
    processes_look(maps);
    vec_foreach(&maps->maps, map)
        map_look(maps, map);
    for (size_t i = maps->maps.n; i-- > 0;)
        if (maps->maps.items[i].file.ended)
            maps->maps.items[i] = maps->maps.items[--maps->maps.n];
}

static void look_due(void *userdata, nsec_t due, uint64_t n_due)
{
    (void)due;
    (void)n_due;
    maps_look(userdata);
}

static int perf_map_open(const struct source_env *env, const Pb__DataSourceConfig *config,
                         struct source **ret, struct err *err)
{
    const Pb__PerfMapConfig *own = config->perf_map_config;
    if (own && own->has_period_ms && own->period_ms && own->period_ms < PERIOD_MIN_MS)
        return err_set(err, -EINVAL, "period_ms is less than %d", PERIOD_MIN_MS);
    struct perf_map_source *maps = calloc(1, sizeof(*maps));
    if (!maps)
        return -ENOMEM;
    maps->source.class = &perf_map_class;
    maps->env = *env;
    maps->config = own && (own->n_pids || own->n_process_cmdlines) ? own : NULL;
    maps->max_bytes = own && own->max_map_kb ? own->max_map_kb : MAX_MAP_KB;
    maps->max_bytes *= 1024;
    maps->period = (own && own->period_ms ? own->period_ms : PERIOD_MS) * NSEC_PER_MSEC;
    *ret = &maps->source;
    return 0;
}

static int perf_map_start(struct source *source, struct err *err)
{
    struct perf_map_source *maps = of_source(source);
    if (!maps->config && maps->env.pids) {
        maps->env.pids->profiled = process_add;
        maps->env.pids->profiled_userdata = maps;
    }
    maps_look(maps);
    int r = loop_add_timer(maps->env.loop, nsec_now(CLOCK_BOOTTIME) + maps->period, maps->period,
                           look_due, maps, &maps->timer);
    return r < 0 ? err_errno(err, r, "event loop") : 0;
}

static void perf_map_flush(struct source *source)
{
    maps_look(of_source(source));
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
    struct perf_map_source *maps = of_source(source);
    listening_end(maps);
    processes_look(maps);
    vec_foreach(&maps->maps, map)
        if (!map->file.ended)
            map_read(maps, map, maps->max_bytes, true);
    if (maps->n_lost)
        log_warning(maps->env.log,
                    "linux.perf_map: the buffer was full: the ends of %llu maps are "
                    "lost",
                    (unsigned long long)maps->n_lost);
}

static struct source *perf_map_close(struct source *source)
{
    struct perf_map_source *maps = of_source(source);
    if (!maps)
        return NULL;
    listening_end(maps);
    vec_foreach(&maps->maps, map)
        perf_map_file_close(&map->file);
    watched_map_vec_done(&maps->maps);
    free(maps);
    return NULL;
}

static void perf_map_counts(const struct source *source, struct source_counts *ret)
{
    const struct perf_map_source *maps = (const struct perf_map_source *)source;
    *ret = (struct source_counts){.events = maps->n_packets, .events_lost = maps->n_lost};
}

const struct source_class perf_map_class = {
    .name = "linux.perf_map",
    .summary = "names of code that runtimes make (perf-PID.map)",
    .open = perf_map_open,
    .start = perf_map_start,
    .flush = perf_map_flush,
    .stop = perf_map_stop,
    .close = perf_map_close,
    .counts = perf_map_counts,
};
