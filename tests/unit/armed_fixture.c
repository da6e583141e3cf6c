// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/armed_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "producer/service/armed/armed_file.h"
#include "tests/unit/temp_folder.h"

struct fake fake;

int service_enable(struct service *service, const struct service_consumer *consumer,
                   const struct service_request *request, uint64_t *ret_session_id, struct err *err)
{
    (void)service;
    if (fake.enable_result < 0) {
        close_fd(request->output_fd);
        return err_set(err, fake.enable_result, "no more of these");
    }
    assert_true(request->start);
    if (fake.start_result < 0) {
        close_fd(request->output_fd);
        return err_set(err, fake.start_result, "will not start");
    }
    assert_in_range(fake.n, 0, 63);
    fake.sessions[fake.n] =
        (struct fake_session){.consumer = consumer, .fd = request->output_fd, .started = true};
    *ret_session_id = ++fake.n;
    return 0;
}

void tell(uint64_t id, enum service_event event, int result)
{
    const struct fake_session *session = &fake.sessions[id - 1];
    session->consumer->notify(session->consumer->userdata, id, event, result,
                              result < 0 ? "it broke" : "", NULL);
}

int service_disable(struct service *service, uint64_t session_id, struct err *err)
{
    (void)service;
    (void)err;
    if (fake.ends_at_once)
        tell(session_id, SERVICE_EVENT_ENDED, 0);
    return 0;
}

int service_destroy(struct service *service, uint64_t session_id)
{
    (void)service;
    struct fake_session *session = &fake.sessions[session_id - 1];
    if (session->destroyed)
        return -ESRCH;
    session->destroyed = true;
    session->fd = close_fd(session->fd);
    return 0;
}

void service_give_up(struct service *service, uint64_t session_id)
{
    fake.n_given_up++;
    service_destroy(service, session_id);
}

bool service_trusts(uid_t uid)
{
    return uid == 0 || uid == geteuid();
}

bool service_session_is_strangers(const struct service *service, uint64_t session_id)
{
    (void)service;
    (void)session_id;
    return false;
}

void service_free_name(struct service *service, uint64_t session_id)
{
    (void)service;
    fake.sessions[session_id - 1].is_nameless = true;
}

enum session_state service_session_state(const struct service *service, uint64_t session_id)
{
    (void)service;
    return fake.sessions[session_id - 1].state;
}

uint64_t service_unwritten_bytes(const struct service *service, uint64_t session_id)
{
    (void)service;
    (void)session_id;
    return 4711;
}

int service_write_late(struct service *service, uint64_t session_id, int fd, struct err *err)
{
    (void)service;
    (void)err;
    struct fake_session *session = &fake.sessions[session_id - 1];
    session->fd = close_fd(session->fd);
    session->fd = fd;
    return 0;
}

int service_clone(struct service *service, const struct service_consumer *consumer,
                  const struct service_clone_request *request, struct service_clone_result *ret,
                  struct err *err)
{
    (void)service;
    if (fake.clone_result < 0)
        return err_set(err, fake.clone_result, "no copies");
    assert_in_range(request->session_id, 1, fake.n);
    assert_string_equal(request->trigger->name, "now");
    assert_true(request->into_file);
    fake.sessions[fake.n] =
        (struct fake_session){.consumer = consumer, .fd = *request->output_fd, .started = true};
    *request->output_fd = -1;
    *ret = (struct service_clone_result){.session_id = ++fake.n, .into_file = true};
    return 0;
}

Pb__TracingServiceState__SessionDetails *service_get_details(struct service *service,
                                                             uint64_t session_id)
{
    (void)service;
    assert_in_range(session_id, 1, fake.n);
    assert_false(fake.sessions[session_id - 1].destroyed);
    Pb__TracingServiceState__SessionDetails *details = malloc(sizeof(*details));
    assert_non_null(details);
    pb__tracing_service_state__session_details__init(details);
    details->events_lost = fake.events_lost;
    details->packets_discarded = fake.packets_discarded;
    return details;
}

size_t n_live(void)
{
    size_t n = 0;
    for (size_t i = 0; i < fake.n; i++)
        n += fake.sessions[i].started && !fake.sessions[i].destroyed;
    return n;
}

static nsec_t fake_now(void *userdata, clockid_t clock)
{
    const struct fixture *f = userdata;
    return clock == CLOCK_REALTIME ? f->now + 1000000000 * NSEC_PER_SEC : f->now;
}

static void hear(void *userdata, enum log_level level, const char *line)
{
    if (level <= LOG_LEVEL_WARNING)
        strbuf_addf(userdata, "%s\n", line);
}

void put(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

void drop(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

size_t count_files(const char *folder, const char *name)
{
    DIR *dir = opendir(folder);
    size_t n = 0;
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        n += *entry->d_name != '.' && (name ? str_eq(entry->d_name, name)
                                            : !str_ends_with(entry->d_name, ARMED_PART_SUFFIX));
    if (dir)
        closedir(dir);
    return n;
}

int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    memset(&fake, 0, sizeof(fake));
    strcpy(f->root, "/var/tmp/mmtrace-unit-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    snprintf(f->configs, sizeof(f->configs), "%s/armed", f->root);
    snprintf(f->output, sizeof(f->output), "%s/lib/traces", f->root);
    assert_int_equal(mkdir(f->configs, 0700), 0);
    f->now = 1000 * NSEC_PER_SEC;
    f->clock = (struct clock_reader){.now = fake_now, .userdata = f};
    f->log = (struct log){.max_level = LOG_LEVEL_DEBUG, .write = hear, .userdata = &f->said};
    *state = f;
    return 0;
}

int teardown(void **state)
{
    struct fixture *f = *state;
    f->armed = armed_free(f->armed);
    assert_int_equal(n_live(), 0);
    temp_folder_remove(f->root);
    strbuf_done(&f->said);
    free(f);
    return 0;
}

void arm(struct fixture *f)
{
    if (f->n_places == 0)
        f->places[f->n_places++] = (struct armed_place){.path = f->configs};
    static const char *const names[] = {"linux.sys_stats", NULL};
    struct armed_options options = {
        .clock = &f->clock,
        .log = &f->log,
        .places = f->places,
        .n_places = f->n_places,
        .output_folder = f->output,
        .max_files = 3,
        .source_names = names,
    };
    assert_int_equal(armed_new(&options, &f->armed, NULL), 0);
}

void pass(struct fixture *f, nsec_t delay)
{
    assert_int_equal(armed_next_due(f->armed) - f->now, delay);
    f->now += delay;
    armed_run_due(f->armed);
}

void record(uint64_t id, const char *bytes)
{
    assert_int_equal(write(fake.sessions[id - 1].fd, bytes, strlen(bytes)), (int)strlen(bytes));
}
