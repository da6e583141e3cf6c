// SPDX-License-Identifier: Apache-2.0
//
// Prints any bytes as the status of a service: no part may control a terminal, or break out of a
// JSON string.
#include <stdlib.h>
#include <string.h>

#include "producer/cli/status_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_controls(const struct strbuf *text)
{
    for (size_t i = 0; i < text->size; i++) {
        unsigned char c = (unsigned char)text->text[i];
        if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
            abort();
    }
}

// Braces and brackets outside of strings have to match.
static void check_json(const char *text)
{
    int depth = 0;
    bool in_string = false;
    for (const char *c = text; *c; c++) {
        if (in_string && *c == '\\')
            c++;
        else if (*c == '"')
            in_string = !in_string;
        else if (!in_string)
            depth += (*c == '{' || *c == '[') - (*c == '}' || *c == ']');
    }
    if (in_string || depth != 0 || strchr(text, '\n') != text + strlen(text) - 1)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Pb__TracingServiceState *state = pb__tracing_service_state__unpack(NULL, size, data);
    if (!state)
        return 0;
    struct status status = {.state = state, .now = NSEC_PER_SEC, .now_realtime_ns = NSEC_PER_SEC};
    struct strbuf text = {0}, json = {0};
    status_add_text(&status, &text);
    status_add_json(&status, &json);
    check_controls(&text);
    check_controls(&json);
    check_json(json.text);
    strbuf_done(&text);
    strbuf_done(&json);
    pb__tracing_service_state__free_unpacked(state, NULL);
    return 0;
}
