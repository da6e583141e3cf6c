// SPDX-License-Identifier: Apache-2.0
//
// Snapshots of running sessions for another consumer: finds the session, checks the right to copy
// it, and checks the memory. A user may copy the user's own sessions, root all.
//
// A session that writes into a file has only its newest packets in memory. Therefore its snapshot
// goes into a file, too: a copy of the written part, and the packets after it. The part may be
// large, so it is written slice by slice, as all output.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/service/service_private.h"
#include "producer/trace/trace_file.h"

DEFINE_CLEANUP(member_freep, struct member, member_free);

static int32_t bugreport_score(const struct member *member)
{
    bool records = session_get_state(member->session) & SESSION_RECORDING;
    return records ? session_get_config(member->session)->bugreport_score : 0;
}

// Sessions of users who are not trusted come after all others: their scores do not stand in root's
// way.
static bool is_better(const struct member *member, const struct member *best)
{
    if (service_trusts(member->uid) != service_trusts(best->uid))
        return service_trusts(member->uid);
    return bugreport_score(member) > bugreport_score(best);
}

static struct member *find_for_bugreport(const struct service *service, uid_t uid)
{
    struct member *best = NULL;
    for (size_t i = 0; i < service->members.n; i++) {
        struct member *member = service->members.items[i];
        if ((uid == 0 || member->uid == uid) && bugreport_score(member) > 0 &&
            (!best || is_better(member, best)))
            best = member;
    }
    return best;
}

static int find_original(const struct service *service, const struct service_clone_request *request,
                         uid_t uid, struct member **ret, struct err *err)
{
    const char *name = request->unique_session_name;
    bool by_name = !request->session_id && name && *name;
    char printable[QUOTED_MAX];
    struct member *member = request->session_id ? find(service, request->session_id)
                            : by_name           ? find_named(service, name, uid)
                                                : find_for_bugreport(service, uid);
    if (member)
        *ret = member;
    else if (request->session_id)
        err_set(err, -ENOENT, "session %" PRIu64 " does not exist", request->session_id);
    else if (by_name)
        err_set(err, -ENOENT, "no session has the unique_session_name \"%s\"",
                quoted(name, printable));
    else
        err_set(err, -ENOENT, "no session%s that records has a bugreport_score above 0",
                uid == 0 ? "" : " of this user");
    return member ? 0 : -ENOENT;
}

static bool needs_file(const struct member *original, const struct service_clone_request *request)
{
    return request->into_file || session_get_settings(original->session)->write_into_file;
}

static int check_clone(const struct member *original, uid_t uid,
                       const struct service_clone_request *request, struct err *err)
{
    if (uid != 0 && uid != original->uid)
        return err_set(err, -EPERM, "session %" PRIu64 " is another user's", original->id);
    if (original->is_clone)
        return err_set(err, -EINVAL, "session %" PRIu64 " is a snapshot itself", original->id);
    if (needs_file(original, request) && (!request->output_fd || *request->output_fd < 0))
        return err_set(err, -EINVAL,
                       "session %" PRIu64 " writes into a file: its snapshot needs a file, too",
                       original->id);
    return 0;
}

// Opens the file that the session has written so far. Without a file, *ret_fd is untouched.
static int open_original(const struct session_file *file, int *ret_fd, struct err *err)
{
    char path[64];
    struct stat st;
    if (file->fd < 0)
        return 0;
    // The bytes of a pipe cannot be read again.
    if (fstat(file->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(err, -EINVAL, "the session does not write into a file that can be copied");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, -errno, "file of the session");
    *ret_fd = fd;
    return 0;
}

static int clone_file(struct service *service, struct member *original, struct member *clone,
                      const struct service_clone_request *request, struct err *err)
{
    struct session_file written;
    int original_fd CLEANUP(close_fdp) = -1;
    session_flush_file(original->session, &written);
    int r = open_original(&written, &original_fd, err);
    if (r < 0)
        return r;
    const struct session_settings *settings = session_get_settings(clone->session);
    struct trace_file_options options = {
        .name = clone->consumer_name,
        .deflate = settings->deflate,
        .sync = settings->sync_after_write,
        .disk = request->into_file ? service->env.disk : NULL,
        .waits_for_room = request->into_file,
    };
    struct trace_file *file;
    r = trace_file_new(*request->output_fd, &options, &file, err);
    if (r < 0)
        return r;
    steal_fd(request->output_fd);
    return session_write_clone(clone->session, file, steal_fd(&original_fd), &written, err);
}

static int make_clone(struct service *service, struct member *original, struct member *clone,
                      const struct service_clone_request *request, struct err *err)
{
    struct session_clone_options options = {
        .for_bugreport = request->for_bugreport,
        .trigger = request->trigger,
        .userdata = clone,
    };
    const Pb__TraceConfig *config = session_get_config(original->session);
    int r =
        service_check_clone(service, config, clone, session_clone_bytes(original->session), err);
    if (r == 0)
        r = service_check_clone(service, config, clone, session_prepare_clone(original->session),
                                err);
    if (r == 0)
        r = session_clone(original->session, &options, &clone->session, err);
    if (r == 0 && needs_file(original, request))
        r = clone_file(service, original, clone, request, err);
    return r;
}

// Returns the order of a trigger of a trusted user for this snapshot, or NULL. A client can name a
// trigger that did not come, but not its time.
static nsec_t *find_owed(struct member *original, const struct service_clone_request *request)
{
    for (size_t i = 0; request->trigger && i < OWED_MAX; i++)
        if (original->owed[i] && original->owed[i] == request->trigger->time)
            return &original->owed[i];
    return NULL;
}

int service_clone(struct service *service, const struct service_consumer *consumer,
                  const struct service_clone_request *request, struct service_clone_result *ret,
                  struct err *err)
{
    struct member *original;
    CLEANUP(member_freep) struct member *clone = NULL;
    int r = find_original(service, request, consumer->uid, &original, err);
    if (r == 0)
        r = check_clone(original, consumer->uid, request, err);
    if (r == 0)
        r = member_new(service, consumer, &clone, err);
    if (r < 0)
        return r;
    clone->is_clone = true;
    clone->ended_told = !needs_file(original, request);
    clone->started_realtime = original->started_realtime;
    nsec_t *owed = find_owed(original, request);
    r = service_check_clone_time(service, clone, owed, err);
    struct loop_share *share = clone->share ? &clone->share->time.sessions : NULL;
    nsec_t began = loop_share_begin(share);
    if (r == 0)
        r = make_clone(service, original, clone, request, err);
    loop_share_spend_since(share, began);
    if (r == 0)
        r = member_insert(service, clone, err);
    if (r < 0)
        return r;
    if (owed)
        *owed = 0;
    const struct session_settings *settings = session_get_settings(clone->session);
    *ret = (struct service_clone_result){
        .session_id = clone->id,
        .uuid_msb = settings->uuid_msb,
        .uuid_lsb = settings->uuid_lsb,
        .into_file = needs_file(original, request),
    };
    STEAL(clone);
    return 0;
}
