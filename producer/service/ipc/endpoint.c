// SPDX-License-Identifier: Apache-2.0
//
// A recording shows the activity of other processes, so the consumer socket is for root and one
// group. Any user may be a producer: producers can only fire triggers that a config waits for.
//
// Sockets of the service manager stay at the end, so that clients that connect during a restart of
// the daemon just wait. Sockets made here are removed.
#include "producer/service/ipc/endpoint.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/str.h"
#include "producer/service/ipc/consumer_port.h"
#include "producer/service/ipc/producer_port.h"
#include "producer/service/ipc/socket.h"

#define SOCKETS_MAX   8 // of one kind
#define CONSUMER_MODE 0660
#define PRODUCER_MODE 0666

struct ipc_endpoint {
    struct ipc_server *server; // owned
    struct config_check_env check;
    struct consumer_port consumers;
    struct producer_port producers;
    char *made[2 * (SOCKETS_MAX + 1)]; // owned: names to remove at the end
    size_t n_made;
};

DEFINE_CLEANUP(endpoint_freep, struct ipc_endpoint, ipc_endpoint_free);

// The properties of one kind of socket.
struct kind {
    const char *passed_name;  // in LISTEN_FDNAMES
    const char *names;        // separated by commas
    const char *control_name; // in the control folder
    mode_t mode;
    struct ipc_access access;
    const struct ipc_port *port;
};

static int find_group(const char *name, gid_t *ret, struct err *err)
{
    uint32_t number = IPC_GROUP_NONE;
    bool is_given = name && *name;
    const struct group *group = is_given ? getgrnam(name) : NULL;
    if (group)
        number = group->gr_gid;
    else if (is_given && (str_parse_u32(name, &number) < 0 || number == IPC_GROUP_NONE))
        return err_set(err, -EINVAL, "group '%s': no such group", name);
    *ret = number;
    return 0;
}

static int serve(struct ipc_endpoint *endpoint, const struct kind *kind, int fd, struct err *err)
{
    int r = ipc_server_listen(endpoint->server, fd, &kind->access, kind->port);
    if (r < 0)
        close_fd(fd);
    return r < 0 ? err_errno(err, r, "socket of the %ss", kind->passed_name) : 0;
}

static int make_socket(struct ipc_endpoint *endpoint, const struct kind *kind, const char *name,
                       struct err *err)
{
    int fd;
    char *copy = strdup(name);
    if (!copy)
        return err_errno(err, -ENOMEM, "socket '%s'", name);
    int r = ipc_socket_listen(name, kind->mode, kind->access.group, &fd, err);
    if (r < 0) {
        free(copy);
        return r;
    }
    if (r == UNIX_SOCKET_E_NO_GROUP) {
        log_warning(endpoint->check.log, "%s (%s)", err->text, err->hint);
        *err = (struct err){0};
    }
    endpoint->made[endpoint->n_made++] = copy;
    return serve(endpoint, kind, fd, err);
}

static int open_sockets(struct ipc_endpoint *endpoint, const struct kind *kind, struct err *err)
{
    int fds[SOCKETS_MAX];
    int n = ipc_socket_activated(kind->passed_name, fds, SOCKETS_MAX, err);
    int r = n < 0 ? n : 0;
    for (int i = 0; i < n; i++) {
        if (r == 0)
            r = serve(endpoint, kind, fds[i], err);
        else
            close_fd(fds[i]);
    }
    if (n != 0)
        return r;
    char name[sizeof(((struct sockaddr_un *)0)->sun_path)];
    size_t i = 0;
    for (; r == 0 && i < SOCKETS_MAX && ipc_socket_list_get(kind->names, i, name, sizeof(name));
         i++)
        r = make_socket(endpoint, kind, name, err);
    return r == 0 && i == 0 ? err_set(err, -EINVAL, "socket '%s': not a usable name", kind->names)
                            : r;
}

static int make_control_socket(struct ipc_endpoint *endpoint, const struct kind *kind,
                               const char *folder, struct err *err)
{
    CLEANUP(freep) char *path = NULL;
    if (asprintf(&path, "%s/%s", folder, kind->control_name) < 0) {
        path = NULL;
        return err_errno(err, -ENOMEM, "socket of the %ss", kind->passed_name);
    }
    return make_socket(endpoint, kind, path, err);
}

static int serve_kinds(struct ipc_endpoint *endpoint, const struct ipc_endpoint_options *options,
                       gid_t group, struct err *err)
{
    const struct kind kinds[] = {
        {
            .passed_name = "consumer",
            .names = ipc_consumer_socket_name(),
            .control_name = IPC_CONTROL_CONSUMER,
            .mode = group == IPC_GROUP_NONE ? 0600 : CONSUMER_MODE,
            .access = {.group = group},
            .port = &endpoint->consumers.port,
        },
        {
            .passed_name = "producer",
            .names = ipc_producer_socket_names(),
            .control_name = IPC_CONTROL_PRODUCER,
            .mode = PRODUCER_MODE,
            .access = {.everyone = true, .group = IPC_GROUP_NONE},
            .port = &endpoint->producers.port,
        },
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < ELEMENTS(kinds); i++) {
        if (!options->no_perfetto_sockets)
            r = open_sockets(endpoint, &kinds[i], err);
        if (r == 0 && options->control_folder)
            r = make_control_socket(endpoint, &kinds[i], options->control_folder, err);
    }
    return r;
}

int ipc_endpoint_new(const struct ipc_endpoint_options *options, struct ipc_endpoint **ret,
                     struct err *err)
{
    CLEANUP(endpoint_freep) struct ipc_endpoint *endpoint = calloc(1, sizeof(*endpoint));
    if (!endpoint)
        return err_errno(err, -ENOMEM, "sockets");
    endpoint->check = (struct config_check_env){
        .log = options->log,
        .source_names = options->source_names,
        .memory_bytes = options->memory_bytes,
        .runs = RUNS_FOR_CLIENT,
    };
    consumer_port_init(&endpoint->consumers, options->service, &endpoint->check, options->log);
    endpoint->consumers.save_folder = options->save_folder;
    producer_port_init(&endpoint->producers, options->service);
    struct ipc_server_env env = {
        .loop = options->loop,
        .log = options->log,
        .limits = options->limits,
    };
    gid_t group = IPC_GROUP_NONE;
    int r = find_group(options->consumer_group, &group, err);
    if (r < 0)
        return r;
    r = ipc_server_new(&env, &endpoint->server);
    if (r < 0)
        return err_errno(err, r, "sockets");
    if (!options->no_perfetto_sockets)
        ipc_socket_make_directory();
    r = serve_kinds(endpoint, options, group, err);
    if (r < 0)
        return r;
    *ret = STEAL(endpoint);
    return 0;
}

struct ipc_endpoint *ipc_endpoint_free(struct ipc_endpoint *endpoint)
{
    if (!endpoint)
        return NULL;
    int saved = errno;
    ipc_server_free(endpoint->server);
    for (size_t i = 0; i < endpoint->n_made; i++) {
        unix_socket_remove(endpoint->made[i]);
        free(endpoint->made[i]);
    }
    free(endpoint);
    errno = saved;
    return NULL;
}
