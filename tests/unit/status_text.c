// SPDX-License-Identifier: Apache-2.0
#include "producer/cli/status_text.h"

#include <string.h>

#include "tests/unit/unit.h"

typedef Pb__TracingServiceState__TracingSession Session;
typedef Pb__TracingServiceState__SessionDetails Details;

static Details details = PB__TRACING_SERVICE_STATE__SESSION_DETAILS__INIT;
static Session full = PB__TRACING_SERVICE_STATE__TRACING_SESSION__INIT;
static Session bare = PB__TRACING_SERVICE_STATE__TRACING_SESSION__INIT;
static uint32_t sizes_kb[] = {512, 1024};

static struct status make_status(Pb__TracingServiceState *state)
{
    static Session *sessions[] = {&full, &bare};
    full.id = 3;
    full.unique_session_name = "mm \"1\"\x1b";
    full.state = "STARTED";
    full.buffer_size_kb = sizes_kb;
    full.n_buffer_size_kb = 2;
    full.bugreport_score = 100;
    full.details = &details;
    details.state = "triggered";
    details.problem = "a is not recorded: \x1b";
    details.has_elapsed_ns = details.has_bytes_buffered = details.has_events = true;
    details.elapsed_ns = 75 * NSEC_PER_SEC;
    details.bytes_buffered = 100000;
    details.events = 4321;
    details.has_events_lost = details.has_triggers_received = details.has_next_due_ns = true;
    details.triggers_received = 2;
    details.last_trigger = "kmem_activity";
    details.has_last_trigger_ns = true;
    details.last_trigger_ns = 35 * NSEC_PER_SEC;
    static char *hears[] = {"kmem_activity", "oom\n"};
    details.hears = hears;
    details.n_hears = 2;
    details.next_due_ns = 7300 * NSEC_PER_SEC;
    bare.id = 12;
    bare.state = "CONFIGURED";
    *state = (Pb__TracingServiceState)PB__TRACING_SERVICE_STATE__INIT;
    state->tracing_service_version = "traced \xff";
    state->has_num_sessions = state->has_num_sessions_started = true;
    state->num_sessions = 2;
    state->num_sessions_started = 1;
    state->tracing_sessions = sessions;
    state->n_tracing_sessions = 2;
    return (struct status){.state = state,
                           .pid = 7,
                           .now = 100 * NSEC_PER_SEC,
                           .now_realtime_ns = 1000 * NSEC_PER_SEC};
}

static void columns_are_aligned(void **state)
{
    (void)state;
    Pb__TracingServiceState message;
    struct status status = make_status(&message);
    struct strbuf text = {0};
    status_add_text(&status, &text);
    assert_string_equal(
        text.text, "service   traced ?, pid 7\n"
                   "sessions  2, 1 started\n"
                   "sources   none\n"
                   "\n"
                   "ID  NAME     STATE       UID  TIME   BUFFERS  USED   EVENTS  LOST  TRIGGERS  "
                   "LAST TRIGGER             ENDS IN  SCORE\n"
                   "3   mm \"1\"?  triggered   0    1m15s  1536 KB  98 KB  4321    0     2         "
                   "kmem_activity 1m05s ago  2h00m    100\n"
                   "12  -        CONFIGURED  0    -      0 KB     -      -       -     -         "
                   "-                        -        -\n"
                   "session 3: a is not recorded: ?\n");
    strbuf_done(&text);
}

static void json_is_escaped(void **state)
{
    (void)state;
    Pb__TracingServiceState message;
    struct status status = make_status(&message);
    struct strbuf text = {0};
    status_add_json(&status, &text);
    assert_non_null(strstr(text.text, "{\"service\":\"traced \\ufffd\",\"pid\":7,"));
    assert_non_null(strstr(text.text, "\"name\":\"mm \\\"1\\\"\\u001b\""));
    assert_non_null(strstr(text.text, "\"problem\":\"a is not recorded: \\u001b\""));
    assert_non_null(strstr(text.text, "\"last_trigger\":\"kmem_activity\""));
    assert_non_null(strstr(text.text, "\"last_trigger_realtime_ns\":935000000000,"));
    assert_non_null(strstr(text.text, "\"hears\":[\"kmem_activity\",\"oom\\u000a\"]"));
    assert_non_null(strstr(text.text, "},{\"id\":12,\"state\":\"CONFIGURED\","));
    assert_string_equal(text.text + text.size - 4, "}]}\n");
    strbuf_done(&text);
}

static void an_empty_service(void **state)
{
    (void)state;
    Pb__TracingServiceState message = PB__TRACING_SERVICE_STATE__INIT;
    struct status status = {.state = &message};
    struct strbuf text = {0};
    status_add_text(&status, &text);
    assert_string_equal(text.text, "service   \nsessions  0, 0 started\nsources   none\n");
    strbuf_clear(&text);
    status_add_json(&status, &text);
    assert_string_equal(text.text, "{\"now_boot_ns\":0,\"data_sources\":[],\"sessions\":[]}\n");
    strbuf_done(&text);
}

// The part of the service's memory that the kernel can reclaim.
static void locked_memory_is_reported(void **state)
{
    (void)state;
    Pb__TracingServiceState message = PB__TRACING_SERVICE_STATE__INIT;
    struct status status = {.state = &message, .resident_bytes = 4 << 20, .own_bytes = 2 << 20};
    struct strbuf text = {0};
    status.locked_bytes = 2 << 20;
    status_add_text(&status, &text);
    assert_non_null(strstr(text.text, "4.0 MB resident, locked in memory\n"));
    strbuf_clear(&text);
    status.locked_bytes = 1 << 20;
    status_add_text(&status, &text);
    assert_non_null(strstr(text.text, "4.0 MB resident, 1.0 of 2.0 MB locked in memory\n"));
    strbuf_clear(&text);
    status_add_json(&status, &text);
    assert_non_null(strstr(text.text, "\"own_bytes\":2097152,\"locked_bytes\":1048576,"));
    strbuf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_aligned),
        cmocka_unit_test(json_is_escaped),
        cmocka_unit_test(an_empty_service),
        cmocka_unit_test(locked_memory_is_reported),
    };
    return cmocka_run_group_tests_name("status_text", tests, NULL, NULL);
}
