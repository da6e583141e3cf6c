// SPDX-License-Identifier: Apache-2.0
//
// The service writes the copy, a little in each round of the loop.
#include "producer/service/armed/armed_snapshot.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"

#define TRIGGER_NAME_MAX 64

DEFINE_CLEANUP(snapshot_freep, struct armed_snapshot, armed_snapshot_free);

static int take_copy(struct armed_snapshot *snapshot, const struct service_consumer *consumer,
                     uint64_t session_id, const struct service_trigger_hit *trigger,
                     const char *name, struct err *err)
{
    CLEANUP(close_fdp) int fd = fcntl(snapshot->file.fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return err_errno(err, -errno, "%s", name);
    struct service_clone_request request = {
        .session_id = session_id,
        .output_fd = &fd,
        .into_file = true,
        .trigger = trigger,
    };
    struct service_clone_result result;
    int r = service_clone(snapshot->service, consumer, &request, &result, err);
    if (r == 0)
        snapshot->session_id = result.session_id;
    return r;
}

char *armed_snapshot_stem(const char *stem, const char *trigger)
{
    char *name;
    if (asprintf(&name, "%s-%.*s", stem, TRIGGER_NAME_MAX, trigger) < 0)
        return NULL;
    for (char *c = name + strlen(stem) + 1; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_.-", *c))
            *c = '_';
    return name;
}

bool armed_snapshot_is_ours(const char *name, const char *stem)
{
    size_t size = strlen(stem);
    if (strncmp(name, stem, size) != 0 || name[size] != '-')
        return false;
    for (const char *dash = name + size + 1; (dash = strchr(dash, '-')); dash++) {
        CLEANUP(freep) char *own_stem = strndup(name, (size_t)(dash - name));
        if (own_stem && armed_file_is_ours(name, own_stem))
            return true;
    }
    return false;
}

static struct armed_folder own_folder(const struct armed_snapshot *snapshot,
                                      const struct armed_folder *folder)
{
    struct armed_folder own = *folder;
    own.stem = snapshot->stem;
    return own;
}

int armed_snapshot_take(struct service *service, const struct service_consumer *consumer,
                        uint64_t session_id, const struct service_trigger_hit *trigger,
                        const struct armed_folder *folder, time_t now, struct armed_snapshot **ret,
                        struct err *err)
{
    CLEANUP(snapshot_freep) struct armed_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (!snapshot)
        return err_errno(err, -ENOMEM, "snapshot");
    snapshot->service = service;
    snapshot->taken = now;
    snapshot->file = ARMED_FILE_NONE;
    snapshot->stem = armed_snapshot_stem(folder->stem, trigger ? trigger->name : "snapshot");
    if (!snapshot->stem)
        return err_errno(err, -ENOMEM, "snapshot");
    struct armed_folder own = own_folder(snapshot, folder);
    int r = armed_file_open(&own, now, &snapshot->file, err);
    if (r == 0)
        r = take_copy(snapshot, consumer, session_id, trigger, folder->path, err);
    if (r == 0 && trigger && !service_trusts(trigger->producer_uid))
        armed_file_mark(&snapshot->file);
    if (r == 0)
        armed_file_publish(&snapshot->file, &own, now,
                           NULL); // on failure, armed_snapshot_finish() tries again
    if (r < 0)
        return err_prefix(err, r, "snapshot");
    *ret = STEAL(snapshot);
    return 0;
}

void armed_snapshot_written(struct armed_snapshot *snapshot, int result, const char *text)
{
    snapshot->written = true;
    if (result < 0)
        err_set(&snapshot->err, result, "%s", text);
    snapshot->result = result < 0 ? result : 0;
}

int armed_snapshot_finish(struct armed_snapshot *snapshot, const struct armed_folder *folder,
                          struct err *err)
{
    struct armed_folder own = own_folder(snapshot, folder);
    int r = snapshot->result;
    if (r < 0) {
        *err = snapshot->err;
        armed_file_drop(&snapshot->file);
    } else
        r = armed_file_publish(&snapshot->file, &own, snapshot->taken, err);
    return r < 0 ? err_prefix(err, r, "snapshot") : 0;
}

struct armed_snapshot *armed_snapshot_free(struct armed_snapshot *snapshot)
{
    if (!snapshot)
        return NULL;
    if (snapshot->session_id)
        service_destroy(snapshot->service, snapshot->session_id);
    armed_file_close(&snapshot->file);
    free(snapshot->stem);
    free(snapshot);
    return NULL;
}
