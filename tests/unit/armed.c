// SPDX-License-Identifier: Apache-2.0
//
// The armed folder against a service that a test plays, in a time that the test makes.
#include "producer/service/armed/armed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "common/file.h"
#include "common/str.h"
#include "producer/service/armed/armed_file.h"
#include "producer/service/armed/armed_snapshot.h"
#include "tests/unit/unit.h"

#define CONFIG "buffers { size_kb: 64 } data_sources { config { name: \"linux.sys_stats\" } }\n"

struct fixture {
    char root[64], configs[96], output[96];
    struct armed_place places[3];
    size_t n_places; // 0: the folder of the configs
    nsec_t now;
    struct strbuf said;
    struct log log;
    struct clock_reader clock;
    struct armed *armed;
};

// -- the service --

struct fake_session {
    const struct service_consumer *consumer;
    int fd;
    bool started, destroyed, is_nameless;
    enum session_state state;
};

static struct {
    struct fake_session sessions[64];
    size_t n;
    int enable_result, start_result, clone_result;
    size_t n_given_up;
    bool ends_at_once; // on service_disable()
    uint64_t events_lost, packets_discarded;
} fake;

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

static void tell(uint64_t id, enum service_event event, int result)
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

static size_t n_live(void)
{
    size_t n = 0;
    for (size_t i = 0; i < fake.n; i++)
        n += fake.sessions[i].started && !fake.sessions[i].destroyed;
    return n;
}

// -- the world around --

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

static void put(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void drop(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

static size_t count_files(const char *folder, const char *name)
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

static int setup(void **state)
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

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    f->armed = armed_free(f->armed);
    assert_int_equal(n_live(), 0);
    nftw(f->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    strbuf_done(&f->said);
    free(f);
    return 0;
}

static void arm(struct fixture *f)
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

// Goes to the next moment at which something happens, which is `delay` from here.
static void pass(struct fixture *f, nsec_t delay)
{
    assert_int_equal(armed_next_due(f->armed) - f->now, delay);
    f->now += delay;
    armed_run_due(f->armed);
}

static void record(uint64_t id, const char *bytes)
{
    assert_int_equal(write(fake.sessions[id - 1].fd, bytes, strlen(bytes)), (int)strlen(bytes));
}

// -- tests --

static void test_armed_again_and_again(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    assert_int_equal(n_live(), 1);
    assert_string_equal(fake.sessions[0].consumer->name, "armed/one.cfg");
    assert_int_equal(armed_next_due(f->armed), NSEC_MAX);
    assert_int_equal(count_files(f->output, NULL), 0);
    f->now += 20 * NSEC_PER_SEC; // a trigger
    tell(1, SERVICE_EVENT_STARTED, 0);
    f->now += 10 * NSEC_PER_SEC;
    record(1, "trace");
    tell(1, SERVICE_EVENT_ENDED, 0);
    // Named by the trigger's time; 1000001020 s after the epoch.
    assert_int_equal(count_files(f->output, "one-20010909T020340Z.pftrace"), 1);
    assert_int_equal(n_live(), 0);
    pass(f, 0);
    assert_int_equal(n_live(), 1);
    // Without data there is no file.
    f->now += 3600 * NSEC_PER_SEC;
    tell(2, SERVICE_EVENT_ENDED, 0);
    assert_int_equal(count_files(f->output, NULL), 1);
    pass(f, 0);
    assert_int_equal(n_live(), 1);
    assert_null(f->said.text);
}

// A trace that lacks something says so where it is written; of a source that does not count its
// events, packets are counted.
static void test_losses_are_told(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    tell(1, SERVICE_EVENT_STARTED, 0);
    record(1, "trace");
    f->now += 20 * NSEC_PER_SEC;
    fake.events_lost = 62345;
    fake.packets_discarded = 7;
    tell(1, SERVICE_EVENT_ENDED, 0);
    assert_non_null(f->said.text);
    assert_non_null(strstr(f->said.text, ".pftrace without 62345 events"));
    pass(f, 0);
    tell(2, SERVICE_EVENT_STARTED, 0);
    record(2, "trace");
    f->now += 20 * NSEC_PER_SEC;
    fake.events_lost = 0;
    tell(2, SERVICE_EVENT_ENDED, 0);
    assert_non_null(strstr(f->said.text, ".pftrace without 7 events"));
}

static void test_back_off(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    nsec_t delay = ARMED_DELAY_MIN;
    for (uint64_t id = 1; id <= 12; id++) {
        f->now += NSEC_PER_SEC;
        tell(id, SERVICE_EVENT_ENDED, id % 2 ? -EIO : 0);
        pass(f, delay);
        delay = delay * 2 < ARMED_DELAY_MAX ? delay * 2 : ARMED_DELAY_MAX;
        assert_int_equal(n_live(), 1);
    }
    assert_int_equal(delay, ARMED_DELAY_MAX);
    // One that lasted sets it back.
    f->now += ARMED_EARLY;
    tell(13, SERVICE_EVENT_ENDED, 0);
    pass(f, 0);
    tell(14, SERVICE_EVENT_ENDED, 0);
    pass(f, ARMED_DELAY_MIN);
    // So does a reload, at once.
    tell(15, SERVICE_EVENT_ENDED, 0);
    assert_int_equal(n_live(), 0);
    armed_reload(f->armed);
    assert_int_equal(n_live(), 1);
}

static void test_failures_are_told_once(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    fake.enable_result = -EEXIST;
    arm(f);
    pass(f, ARMED_DELAY_MIN);
    pass(f, 2 * ARMED_DELAY_MIN);
    assert_string_equal(f->said.text,
                        "armed/one.cfg: not armed yet, tried again later: no more of these\n");
    fake.enable_result = 0;
    fake.start_result = -EIO;
    strbuf_clear(&f->said);
    pass(f, 4 * ARMED_DELAY_MIN);
    pass(f, 8 * ARMED_DELAY_MIN);
    assert_string_equal(f->said.text,
                        "armed/one.cfg: not armed yet, tried again later: will not start\n");
    assert_int_equal(n_live(), 0);
    fake.start_result = 0;
    pass(f, 16 * ARMED_DELAY_MIN);
    assert_int_equal(n_live(), 1);
    assert_int_equal(count_files(f->output, NULL), 0);
}

static void test_wrong_config_is_left_alone(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "bad.cfg", "buffers { size_kb: nothing }");
    put(f->configs, "good.cfg", CONFIG);
    put(f->configs, "notes.txt", "not a config");
    put(f->configs, ".cfg", "nor this");
    put(f->configs, "unknown.cfg",
        "buffers { size_kb: 64 } data_sources { config { name: \"x\" } }");
    char path[256];
    snprintf(path, sizeof(path), "%s/pipe.cfg", f->configs);
    assert_int_equal(mkfifo(path, 0600), 0);
    arm(f);
    struct armed_counts counts;
    armed_get_counts(f->armed, &counts);
    assert_int_equal(counts.configs, 4);
    assert_int_equal(counts.live, n_live());
    assert_non_null(strstr(f->said.text, "armed/bad.cfg: left alone until it changes: bad.cfg:1:"));
    assert_non_null(
        strstr(f->said.text, "armed/pipe.cfg: left alone until it changes: not a file"));
    assert_int_equal(armed_next_due(f->armed), NSEC_MAX);
    size_t live = n_live();
    put(f->configs, "bad.cfg", CONFIG);
    armed_reload(f->armed);
    pass(f, 0);
    assert_int_equal(n_live(), live + 1);
}

static void test_configs_change_and_go(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    put(f->configs, "two.cfg", CONFIG);
    arm(f);
    assert_int_equal(n_live(), 2);
    // The session has something to write before it ends; the new one waits for that.
    put(f->configs, "one.cfg", CONFIG "unique_session_name: \"x\"\n");
    armed_reload(f->armed);
    assert_int_equal(fake.n, 2);
    uint64_t one = str_eq(fake.sessions[0].consumer->name, "armed/one.cfg") ? 1 : 2;
    record(one, "trace");
    tell(one, SERVICE_EVENT_ENDED, 0);
    pass(f, 0); // read again
    assert_int_equal(fake.n, 2);
    pass(f, 0); // and armed
    assert_int_equal(fake.n, 3);
    assert_int_equal(count_files(f->output, NULL), 1);
    fake.ends_at_once = true;
    drop(f->configs, "two.cfg");
    armed_reload(f->armed);
    assert_int_equal(n_live(), 1);
    struct armed_counts counts;
    armed_get_counts(f->armed, &counts);
    assert_int_equal(counts.configs, 1);
    assert_int_equal(counts.files, 1);
}

static void note_done(void *userdata)
{
    ++*(unsigned *)userdata;
}

static void test_end(void **state)
{
    struct fixture *f = *state;
    unsigned n_done = 0;
    put(f->configs, "one.cfg", CONFIG);
    put(f->configs, "two.cfg", CONFIG);
    put(f->configs, "bad.cfg", "nonsense");
    arm(f);
    armed_end(f->armed, note_done, &n_done);
    assert_int_equal(n_done, 0);
    tell(1, SERVICE_EVENT_ENDED, 0);
    pass(f, 0);
    assert_int_equal(n_done, 0);
    record(2, "last words");
    tell(2, SERVICE_EVENT_ENDED, 0);
    pass(f, 0);
    assert_int_equal(n_done, 1);
    assert_int_equal(fake.n, 2);
    assert_int_equal(count_files(f->output, NULL), 1);
}

static void test_output_path(void **state)
{
    struct fixture *f = *state;
    char config[512], path[160];
    snprintf(config, sizeof(config), CONFIG "output_path: \"%s/else/where.pftrace\"\n", f->root);
    put(f->configs, "one.cfg", config);
    put(f->configs, "two.cfg", CONFIG "output_path: \"below/\"\n");
    arm(f);
    record(1, "trace");
    record(2, "trace");
    tell(1, SERVICE_EVENT_ENDED, 0);
    tell(2, SERVICE_EVENT_ENDED, 0);
    snprintf(path, sizeof(path), "%s/else", f->root);
    assert_int_equal(count_files(path, "where-20010909T020320Z.pftrace"), 1);
    snprintf(path, sizeof(path), "%s/below", f->output);
    assert_int_equal(count_files(path, "two-20010909T020320Z.pftrace"), 1);
}

static void test_pruning(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    put(f->root, "x", "");
    arm(f); // makes the folder
    static const char *const theirs[] = {"one-2.pftrace", "one-20010909T020320Z.pftrace.txt",
                                         "other-20010909T020320Z.pftrace", "one.pftrace"};
    for (size_t i = 0; i < 4; i++)
        put(f->output, theirs[i], "");
    for (uint64_t id = 1; id <= 6; id++) { // all in the same second
        record(id, "trace");
        tell(id, SERVICE_EVENT_ENDED, 0);
        f->now = armed_next_due(f->armed);
        if (id < 6)
            armed_run_due(f->armed);
    }
    assert_int_equal(count_files(f->output, NULL), 3 + 4);
    struct armed_folder folder = {.path = f->output, .stem = "one", .max_bytes = 11};
    armed_folder_prune(&folder, &f->log);
    assert_int_equal(count_files(f->output, NULL), 2 + 4);
    folder.max_bytes = 1;
    armed_folder_prune(&folder, &f->log);
    assert_int_equal(count_files(f->output, NULL), 1 + 4);
    put(f->output, "one-20010909T020320Z-7.pftrace", "");
    armed_folder_prune(&folder, &f->log);
    assert_int_equal(count_files(f->output, NULL), 1 + 4);
}

static void order_snapshot(uint64_t id)
{
    static const struct service_trigger_hit hit = {.name = "now", .producer_name = "me"};
    const struct service_consumer *consumer = fake.sessions[id - 1].consumer;
    consumer->notify(consumer->userdata, id, SERVICE_EVENT_CLONE_TRIGGERED, 0, "", &hit);
}

static void test_snapshots(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    order_snapshot(1);
    order_snapshot(1);
    assert_int_equal(n_live(), 3);
    // Nothing is to be done while they are written, and there is no file that is not complete.
    assert_int_equal(armed_next_due(f->armed), NSEC_MAX);
    assert_int_equal(count_files(f->output, "one-now-20010909T020320Z.pftrace.part"), 1);
    record(2, "snapshot");
    armed_run_due(f->armed);
    assert_int_equal(count_files(f->output, NULL), 0);
    tell(2, SERVICE_EVENT_ENDED, 0);
    assert_true(armed_next_due(f->armed) <= f->now);
    armed_run_due(f->armed);
    assert_int_equal(count_files(f->output, NULL), 1);
    assert_int_equal(count_files(f->output, "one-now-20010909T020320Z.pftrace"), 1);
    assert_int_equal(n_live(), 2); // and recording goes on
    record(3, "half a sna");
    tell(3, SERVICE_EVENT_ENDED, -ENOSPC);
    armed_run_due(f->armed);
    assert_int_equal(count_files(f->output, NULL), 1);
    assert_int_equal(n_live(), 1);
    assert_int_equal(armed_next_due(f->armed), NSEC_MAX);
    assert_string_equal(f->said.text, "armed/one.cfg: snapshot: it broke\n");
    strbuf_clear(&f->said);

    // The config's end waits for the snapshot.
    fake.ends_at_once = true;
    order_snapshot(1);
    drop(f->configs, "one.cfg");
    armed_reload(f->armed);
    assert_int_equal(n_live(), 1);
    record(4, "snapshot");
    tell(4, SERVICE_EVENT_ENDED, 0);
    while (armed_next_due(f->armed) <= f->now)
        armed_run_due(f->armed);
    assert_int_equal(n_live(), 0);
    assert_int_equal(count_files(f->output, NULL), 2);
}

static void test_places(void **state)
{
    struct fixture *f = *state;
    char vendor[128], file[160], nowhere[128];
    snprintf(vendor, sizeof(vendor), "%s/vendor", f->root);
    snprintf(file, sizeof(file), "%s/one.cfg", vendor);
    snprintf(nowhere, sizeof(nowhere), "%s/nowhere", f->root);
    assert_int_equal(mkdir(vendor, 0700), 0);
    f->places[0] = (struct armed_place){.path = file, .optional = true};
    f->places[1] = (struct armed_place){.path = nowhere, .optional = true};
    f->places[2] = (struct armed_place){.path = f->configs};
    f->n_places = 3;
    put(f->configs, "one.cfg", CONFIG);
    put(vendor, "two.cfg", CONFIG); // not asked for
    arm(f);
    fake.ends_at_once = true;
    assert_int_equal(n_live(), 1);
    strbuf_clear(&f->said);
    // The vendor's takes the place of ours, and gives it back.
    put(vendor, "one.cfg", "not a config");
    armed_reload(f->armed);
    while (armed_next_due(f->armed) <= f->now)
        armed_run_due(f->armed);
    assert_int_equal(n_live(), 0);
    assert_non_null(strstr(f->said.text, "armed/one.cfg: left alone"));
    drop(vendor, "one.cfg");
    armed_reload(f->armed);
    while (armed_next_due(f->armed) <= f->now)
        armed_run_due(f->armed);
    assert_int_equal(n_live(), 1);
    // What is not optional is missed.
    drop(f->configs, "one.cfg");
    rmdir(f->configs);
    strbuf_clear(&f->said);
    armed_reload(f->armed);
    assert_non_null(strstr(f->said.text, "/nowhere, "));
    assert_non_null(strstr(f->said.text, "cannot be read: No such file"));
}

static void test_names_of_snapshots(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"oom_kill", "one-oom_kill"},
        {"com.app/../x y", "one-com.app_.._x_y"},
        {"", "one-"},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        CLEANUP(freep) char *stem = armed_snapshot_stem("one", cases[i][0]);
        assert_string_equal(stem, cases[i][1]);
    }
    char name[200];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    CLEANUP(freep) char *stem = armed_snapshot_stem("one", name);
    assert_int_equal(strlen(stem), 4 + 64);
    assert_false(armed_file_is_ours("one-oom_kill-20010909T020320Z.pftrace", "one"));
    assert_true(armed_snapshot_is_ours("one-oom_kill-20010909T020320Z.pftrace", "one"));
    assert_true(armed_snapshot_is_ours("one-a-b-20010909T020320Z-2.pftrace", "one"));
    assert_false(armed_snapshot_is_ours("one-20010909T020320Z.pftrace", "one"));
    assert_false(armed_snapshot_is_ours("one-notes.pftrace", "one"));
    assert_false(armed_snapshot_is_ours("two-oom_kill-20010909T020320Z.pftrace", "one"));
    assert_true(armed_file_is_ours("one-oom_kill-20010909T020320Z.pftrace", "one-oom_kill"));
}

// Twenty snapshots by one trigger leave those of another.
static void test_bounds_of_snapshots(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg",
        CONFIG " trigger_config { trigger_mode: CLONE_SNAPSHOT trigger_timeout_ms: 1000 "
               "triggers { name: 'often' } triggers { name: 'rare' } }");
    assert_int_equal(folder_make(f->output, 0700), 0);
    put(f->output, "one-rare-20010909T020320Z.pftrace", "rare");
    for (int i = 10; i < 30; i++) {
        char name[64];
        snprintf(name, sizeof(name), "one-often-20010909T0203%dZ.pftrace", i);
        put(f->output, name, "often");
    }
    arm(f);
    assert_int_equal(count_files(f->output, NULL), 3 + 1);
}

static void test_snapshot_that_fails(void **state)
{
    struct fixture *f = *state;
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    fake.clone_result = -ENOSPC;
    order_snapshot(1);
    assert_string_equal(f->said.text, "armed/one.cfg: snapshot: no copies\n");
    assert_int_equal(count_files(f->output, NULL), 0);
    assert_int_equal(n_live(), 1);
}

// Takes all descriptors but `n_left`; give_back() releases them.
static int hoard[1024];
static size_t n_hoarded;

static void take_descriptors(size_t n_left)
{
    int fd;
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        assert_true(n_hoarded < 1024);
        hoard[n_hoarded++] = fd;
    }
    assert_int_equal(errno, EMFILE);
    while (n_left-- > 0)
        close(hoard[--n_hoarded]);
}

static void give_back(void)
{
    while (n_hoarded > 0)
        close(hoard[--n_hoarded]);
}

static void test_shortage_loses_no_config(void **state)
{
    struct fixture *f = *state;
    struct rlimit limit, before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    limit.rlim_cur = 128;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    assert_int_equal(n_live(), 1);
    // The folder cannot be read.
    put(f->configs, "two.cfg", CONFIG);
    take_descriptors(0);
    armed_reload(f->armed);
    assert_int_equal(n_live(), 1);
    assert_non_null(strstr(f->said.text, "cannot be read: "));
    // It can, but not what is in it.
    give_back();
    take_descriptors(1);
    pass(f, 60 * NSEC_PER_SEC);
    assert_int_equal(n_live(), 1);
    assert_non_null(
        strstr(f->said.text, "armed/two.cfg: not armed yet, tried again later: config"));
    // The config can be read now, but there is nothing left for its file.
    pass(f, NSEC_PER_SEC);
    pass(f, 0);
    assert_int_equal(n_live(), 1);
    give_back();
    pass(f, NSEC_PER_SEC);
    assert_int_equal(n_live(), 2);
    assert_int_equal(armed_next_due(f->armed), NSEC_MAX);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void test_folder_goes_and_comes(void **state)
{
    struct fixture *f = *state;
    fake.ends_at_once = true;
    put(f->configs, "one.cfg", CONFIG);
    arm(f);
    drop(f->configs, "one.cfg");
    assert_int_equal(rmdir(f->configs), 0);
    armed_reload(f->armed);
    while (armed_next_due(f->armed) <= f->now)
        armed_run_due(f->armed);
    assert_int_equal(n_live(), 0);
    assert_int_equal(mkdir(f->configs, 0700), 0);
    put(f->configs, "one.cfg", CONFIG);
    pass(f, 60 * NSEC_PER_SEC);
    assert_int_equal(n_live(), 1);
    assert_int_equal(armed_next_due(f->armed), NSEC_MAX);
}

static void test_names(void **state)
{
    (void)state;
    assert_true(armed_file_is_ours("a-20261121T031500Z.pftrace", "a"));
    assert_true(armed_file_is_ours("a-20261121T031500Z-12.pftrace", "a"));
    assert_true(armed_file_is_ours("a-b-20261121T031500Z.pftrace", "a-b"));
    static const char *const others[] = {"a-b-20261121T031500Z.pftrace",
                                         "a-20261121T031500Z",
                                         "a-20261121T031500Z-.pftrace",
                                         "a-20261121T03150Z.pftrace",
                                         "a-20261121T031500Z-1x.pftrace",
                                         "a",
                                         "a-",
                                         ""};
    for (size_t i = 0; i < ELEMENTS(others); i++)
        assert_false(armed_file_is_ours(others[i], "a"));
}

static void test_same_second(void **state)
{
    struct fixture *f = *state;
    struct armed_folder folder = {.path = f->output, .stem = "s"};
    for (unsigned i = 0; i < 3; i++) {
        struct armed_file file;
        assert_int_equal(armed_file_open(&folder, 0, &file, NULL), 0);
        assert_true(armed_file_is_empty(&file));
        assert_int_equal(write(file.fd, "x", 1), 1);
        assert_int_equal(armed_file_publish(&file, &folder, 0, NULL), 0);
        assert_int_equal(armed_file_complete(&file), 0);
        armed_file_close(&file);
    }
    assert_int_equal(count_files(f->output, "s-19700101T000000Z.pftrace"), 1);
    assert_int_equal(count_files(f->output, "s-19700101T000000Z-2.pftrace"), 1);
    assert_int_equal(count_files(f->output, "s-19700101T000000Z-3.pftrace"), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_armed_again_and_again),
        T(test_losses_are_told),
        T(test_back_off),
        T(test_failures_are_told_once),
        T(test_wrong_config_is_left_alone),
        T(test_configs_change_and_go),
        T(test_end),
        T(test_output_path),
        T(test_pruning),
        T(test_same_second),
        T(test_snapshots),
        T(test_places),
        T(test_names_of_snapshots),
        T(test_bounds_of_snapshots),
        T(test_snapshot_that_fails),
        T(test_shortage_loses_no_config),
        T(test_folder_goes_and_comes),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
