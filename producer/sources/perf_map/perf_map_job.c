// SPDX-License-Identifier: Apache-2.0
//
// Roots and maps are held between requests: both can be read after the process has ended. A helper
// that replaces another one opens the maps of live processes again, and continues at the offsets of
// the requests.
#include "producer/sources/perf_map/perf_map_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"
#include "common/vec.h"

VEC_DEFINE(map_file_vec, struct perf_map_file *);

static struct map_file_vec *files_of(struct foreign_worker *worker)
{
    if (!*worker->state)
        *worker->state = calloc(1, sizeof(struct map_file_vec));
    return *worker->state;
}

static size_t place_of(const struct map_file_vec *files, const struct perf_map_process *process)
{
    size_t i = 0;
    while (i < files->n && (files->items[i]->process.pid != process->pid ||
                            files->items[i]->process.start_ticks != process->start_ticks))
        i++;
    return i;
}

static void forget(struct map_file_vec *files, size_t at)
{
    perf_map_file_close(files->items[at]);
    free(files->items[at]);
    files->items[at] = files->items[--files->n];
}

static int file_new(struct foreign_worker *worker, struct map_file_vec *files,
                    const struct perf_map_ask *asked, int root_fd)
{
    struct perf_map_file *file = malloc(sizeof(*file));
    if (!file || map_file_vec_push(files, file) < 0) {
        free(file);
        close_fd(root_fd);
        return -ENOMEM;
    }
    int r = root_fd < 0 && asked->ended
                ? -ESRCH
                : perf_map_file_open(file, worker->proc, &asked->process, root_fd);
    if (r == -ESRCH && root_fd < 0)
        *file = (struct perf_map_file){.fd = -1, .times_fd = -1, .root_fd = -1};
    if (r < 0)
        forget(files, files->n - 1);
    return r;
}

// Returns whether the file is the map of the request, which an earlier helper has read.
static bool is_known(const struct perf_map_file *file, const struct perf_map_ask *asked)
{
    struct stat st;
    return file->device == asked->device && file->inode == asked->inode && asked->inode &&
           fstat(file->fd, &st) == 0 && (uint64_t)st.st_size >= asked->offset;
}

static void read_news(struct perf_map_file *file, const struct perf_map_ask *asked,
                      struct foreign_answer *ret)
{
    struct perf_map_news *news = (void *)ret->bytes;
    char *text = (char *)(news + 1);
    memset(news, 0, sizeof(*news));
    bool is_first = file->fd < 0;
    file->offset = asked->offset;
    file->times_offset = asked->times_offset;
    if (perf_map_file_find(file)) {
        news->is_new = !is_first || !is_known(file, asked);
        if (!news->is_new) {
            file->offset = asked->offset;
            file->times_offset = asked->times_offset;
        }
    }
    news->device = file->device;
    news->inode = file->inode;
    memcpy(news->path, file->path, sizeof(news->path));
    news->refused = file->refused;
    news->n_left = perf_map_file_left(file);
    news->n_text = (uint32_t)perf_map_file_read(file, text, PERF_MAP_PIECE, asked->last);
    news->n_times =
        (uint32_t)perf_map_times_read(file, text + news->n_text, PERF_MAP_PIECE, asked->last);
    ret->size = sizeof(*news) + news->n_text + news->n_times;
}

void perf_map_read_job(struct foreign_worker *worker, struct foreign_request *request,
                       struct foreign_answer *ret)
{
    const struct perf_map_ask *asked = request->bytes;
    struct map_file_vec *files = files_of(worker);
    size_t at = files ? place_of(files, &asked->process) : 0;
    int r = files ? 0 : -ENOMEM;
    if (r == 0 && at == files->n)
        r = file_new(worker, files, asked, steal_fd(&request->fd));
    ret->result = r;
    if (r < 0)
        return;
    if (!asked->ended)
        perf_map_file_refresh(files->items[at], worker->proc);
    read_news(files->items[at], asked, ret);
}

void perf_map_forget_job(struct foreign_worker *worker, struct foreign_request *request,
                         struct foreign_answer *ret)
{
    struct map_file_vec *files = files_of(worker);
    size_t at = files ? place_of(files, request->bytes) : 0;
    if (files && at < files->n)
        forget(files, at);
    ret->result = 0;
}
