// SPDX-License-Identifier: Apache-2.0
//
// PixelModemEvents: the log of the modem of Google's phones, as tokens of texts and their values
// (Pigweed's tokenized logging). PixelModemTokenDatabase has the texts. The database has no time
// and may follow the events, so the database is read in file order. An event is an instant on the
// track of its domain.
//
// Invariant: printf never gets a format from the trace. This file parses and rebuilds directives.
// Each rebuilt directive prints one number in a few characters.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/map.h"
#include "common/str.h"
#include "common/text.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define HEADER_SIZE    16
#define COUNT_OFFSET   8
#define ENTRY_SIZE     8
#define REMOVED_NEVER  UINT32_MAX
#define TOKEN_SIZE     4
#define WIDTH_MAX      31                   // of a number, in characters
#define TEXT_MAX       1024                 // bytes of a text; a short event can name a long text
#define MADE_BYTES_MAX (UINT64_C(32) << 20) // bytes of formatted texts
#define ARGS_MAX       64                   // of a text; real texts have far fewer
#define PAIR_BEGIN     "\xe2\x96\xa0"       // a black square
#define PAIR_MIDDLE    "\xe2\x99\xa6"       // a black diamond

VEC_DEFINE(modem_text_vec, struct slice_name);

struct modem {
    struct map64 index; // token -> text
    struct modem_text_vec texts;
    uint64_t n_made_bytes; // bytes of formatted texts that are kept
};

static uint32_t u32_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

// Reads the database of texts. Returns 0, -EBADMSG or -ENOMEM.
static int texts_read(struct modem *modem, const uint8_t *bytes, size_t size)
{
    static const uint8_t magic[COUNT_OFFSET] = {'T', 'O', 'K', 'E', 'N', 'S', 0, 0};
    if (size < HEADER_SIZE || memcmp(bytes, magic, sizeof(magic)) != 0)
        return -EBADMSG;
    size_t n = u32_at(bytes + COUNT_OFFSET);
    if (n > (size - HEADER_SIZE) / ENTRY_SIZE)
        return -EBADMSG;
    const uint8_t *entry = bytes + HEADER_SIZE, *text = entry + n * ENTRY_SIZE;
    for (size_t i = 0; i < n; i++, entry += ENTRY_SIZE) {
        const uint8_t *end = memchr(text, 0, size - (size_t)(text - bytes));
        if (!end)
            return -EBADMSG;
        struct slice_name item =
            name_cut((struct slice_name){(const char *)text, (size_t)(end - text)}, TEXT_MAX);
        bool is_live = u32_at(entry + TOKEN_SIZE) == REMOVED_NEVER;
        if (is_live && (modem_text_vec_push(&modem->texts, item) < 0 ||
                        map64_set(&modem->index, u32_at(entry), modem->texts.n - 1) < 0))
            return -ENOMEM;
        text = end + 1;
    }
    return 0;
}

static void database_now(struct import *im, const struct packet *packet)
{
    struct modem *modem = packet->own;
    MESSAGE(part, PixelModemTokenDatabase, packet->message);
    const struct wire_field *bytes = &part.database;
    map64_clear(&modem->index);
    modem_text_vec_clear(&modem->texts);
    int r = bytes->data ? texts_read(modem, bytes->data, bytes->size) : -EBADMSG;
    if (r == -EBADMSG)
        stats_add(&im->stats, STAT_mmsql_modem_events_damaged, 1);
    import_fail(im, r == -EBADMSG ? 0 : r);
}

// An event being read.
struct tokenized {
    struct import *im;
    uint32_t token;
    struct wire_reader payload;
    struct strbuf text;
    struct arg args[ARGS_MAX + 4];
    size_t n_args, n_values;
    bool is_short; // the payload ended early
};

// A printf directive of a text.
struct directive {
    char flags[6];        // of "-+# 0"
    int width, precision; // -1: none
    bool width_is_value, precision_is_value;
    bool is_long;
    char form; // 0: not a directive
};

static bool value_read(struct tokenized *event, int64_t *ret)
{
    uint64_t raw = 0;
    unsigned shift = 0;
    struct wire_reader *payload = &event->payload;
    while (payload->pos < payload->end && shift < 64) {
        uint8_t byte = *payload->pos++;
        raw |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (byte < 0x80) {
            *ret = wire_unzigzag(raw);
            return true;
        }
    }
    event->is_short = true;
    return false;
}

static int number_scan(const char **at, const char *end, bool *ret_is_value)
{
    int n = -1;
    if (*at < end && **at == '*') {
        *ret_is_value = true;
        ++*at;
        return n;
    }
    for (; *at < end && is_digit(**at); ++*at)
        n = n < WIDTH_MAX ? (n < 0 ? 0 : n) * 10 + (**at - '0') : n;
    return n;
}

// Parses a directive after its per cent sign, and moves *at past it.
static struct directive directive_scan(const char **at, const char *end)
{
    struct directive found = {.width = -1, .precision = -1};
    size_t n_flags = 0;
    for (; *at < end && strchr("-+# 0", **at) && **at; ++*at)
        if (!memchr(found.flags, **at, n_flags))
            found.flags[n_flags++] = **at;
    found.width = number_scan(at, end, &found.width_is_value);
    if (*at < end && **at == '.') {
        ++*at;
        found.precision = number_scan(at, end, &found.precision_is_value);
        if (found.precision < 0)
            found.precision = 0;
    }
    char before = 0;
    for (; *at < end && **at && strchr("hljztL", **at); ++*at) {
        found.is_long |= **at == 'j' || (**at == 'l' && before == 'l');
        before = **at;
    }
    if (*at < end && **at && strchr("dicpoxXufFeEaAgG%", **at))
        found.form = *(*at)++;
    return found;
}

static int clamped(int64_t value)
{
    return value < 0 ? -1 : value > WIDTH_MAX ? WIDTH_MAX : (int)value;
}

// Reads a width and a precision that are values ("*").
static bool directive_complete(struct tokenized *event, struct directive *directive)
{
    int64_t width = directive->width, precision = directive->precision;
    if ((directive->width_is_value && !value_read(event, &width)) ||
        (directive->precision_is_value && !value_read(event, &precision)))
        return false;
    directive->width = clamped(width);
    directive->precision = clamped(precision);
    return true;
}

static void value_keep(struct tokenized *event, struct arg arg)
{
    struct slice_name key =
        import_text(event->im, "pw_token_%u.arg_%zu", event->token, event->n_values++);
    arg.key = key.text;
    if (event->n_args < ARGS_MAX)
        event->args[event->n_args++] = arg;
}

// Writes %FLAGS WIDTH .PRECISION LENGTH FORM, without blanks.
static void format_make(const struct directive *directive, const char *length, char *ret,
                        size_t size)
{
    char width[16] = "", precision[16] = "";
    if (directive->width >= 0)
        snprintf(width, sizeof(width), "%d", directive->width);
    if (directive->precision >= 0)
        snprintf(precision, sizeof(precision), ".%d", directive->precision);
    snprintf(ret, size, "%%%s%s%s%s%c", directive->flags, width, precision, length,
             directive->form);
}

static bool real_put(struct tokenized *event, const struct directive *directive)
{
    char format[64], text[512];
    float value;
    struct wire_reader *payload = &event->payload;
    if ((size_t)(payload->end - payload->pos) < sizeof(value)) {
        event->is_short = true;
        return false;
    }
    uint32_t bits = u32_at(payload->pos);
    memcpy(&value, &bits, sizeof(value));
    payload->pos += sizeof(value);
    value_keep(event, arg_real(NULL, (double)value));
    format_make(directive, "", format, sizeof(format));
    snprintf(text, sizeof(text), format, (double)value);
    strbuf_add_str(&event->text, text);
    return true;
}

static bool integer_put(struct tokenized *event, const struct directive *directive)
{
    char format[64], text[512];
    int64_t value;
    if (!value_read(event, &value))
        return false;
    uint64_t number = (uint64_t)value;
    switch (directive->form) {
    case 'd':
    case 'i':
        value_keep(event, arg_int(NULL, value));
        format_make(directive, "ll", format, sizeof(format));
        snprintf(text, sizeof(text), format, (long long)value);
        break;
    case 'c':
        value_keep(event, arg_int(NULL, value));
        format_make(directive, "", format, sizeof(format));
        snprintf(text, sizeof(text), format, (int)(value & 0x7f));
        break;
    case 'p':
        value_keep(event, arg_uint(NULL, number));
        snprintf(text, sizeof(text), "0x%llx", (unsigned long long)number);
        break;
    default:
        if (!directive->is_long)
            number &= UINT32_MAX;
        value_keep(event, arg_uint(NULL, number));
        format_make(directive, "ll", format, sizeof(format));
        snprintf(text, sizeof(text), format, (unsigned long long)number);
    }
    strbuf_add_str(&event->text, text);
    return true;
}

static void directive_put(struct tokenized *event, struct directive *directive)
{
    bool is_real = strchr("fFeEaAgG", directive->form) != NULL;
    if (event->is_short || event->n_values >= ARGS_MAX || !directive_complete(event, directive) ||
        !(is_real ? real_put(event, directive) : integer_put(event, directive)))
        strbuf_add_str(&event->text, "<ERROR>");
}

static void text_make(struct tokenized *event, struct slice_name raw)
{
    const char *at = raw.text, *end = at + raw.size;
    while (at < end) {
        const char *sign = memchr(at, '%', (size_t)(end - at));
        strbuf_add(&event->text, at, (size_t)((sign ? sign : end) - at));
        if (!sign)
            return;
        at = sign + 1;
        struct directive directive = directive_scan(&at, end);
        if (directive.form == '%')
            strbuf_add_char(&event->text, '%');
        else if (directive.form)
            directive_put(event, &directive);
        else
            strbuf_add(&event->text, sign, (size_t)(at - sign));
    }
}

// Returns the text up to `mark`, or the whole text without a mark, and moves *text past the mark.
static struct slice_name part_take(struct slice_name *text, const char *mark)
{
    const char *found = memmem(text->text, text->size, mark, strlen(mark));
    struct slice_name part = {.text = text->text,
                              .size = found ? (size_t)(found - text->text) : text->size};
    size_t taken = part.size + (found ? strlen(mark) : 0);
    *text = (struct slice_name){.text = text->text + taken, .size = text->size - taken};
    return part;
}

// Returns the value of `key` in a text that is a list of pairs; no text if the key is missing.
static struct slice_name pair_find(struct slice_name text, const char *key)
{
    while (text.size) {
        struct slice_name pair = part_take(&text, PAIR_BEGIN);
        struct slice_name name = part_take(&pair, PAIR_MIDDLE);
        struct slice_name value = part_take(&pair, PAIR_MIDDLE);
        if (value.size && name_is(name, key))
            return value;
    }
    return (struct slice_name){0};
}

// Returns the formatted text. After many bytes of formatted texts, returns the raw text, because
// the values are also args.
static struct slice_name text_keep(struct import *im, struct modem *modem,
                                   const struct tokenized *event, struct slice_name raw)
{
    if (!event->text.size || modem->n_made_bytes > MADE_BYTES_MAX)
        return raw;
    size_t n = im->strings.n;
    uint32_t id = import_strbuf_keep(im, &event->text);
    if (im->strings.n > n)
        modem->n_made_bytes += event->text.size;
    return slice_name_of(&im->strings, id);
}

static void event_write(struct import *im, int64_t ts, const struct tokenized *event,
                        struct slice_name all)
{
    struct slice_name domain = pair_find(all, "domain"), format = pair_find(all, "format");
    struct slice_name name = domain.size ? import_text(im, "Pixel Modem Events: %.*s",
                                                       (int)name_cut(domain, 400).size, domain.text)
                                         : slice_name("Pixel Modem Events");
    struct track_spec track = {
        .type = "pixel_modem_event",
        .dimensions = {dimension_text("modem_domain", domain.text, domain.size)},
        .name = name,
    };
    struct slice_spec spec = {
        .ts = ts,
        .track = tracks_get(&im->tracks, &track),
        .name = format.size ? format : all,
        .args = event->args,
        .n_args = event->n_args,
    };
    slice_add(&im->slices, &spec);
}

static void event_read(struct import *im, struct modem *modem, const struct packet *packet,
                       int64_t ts, const struct wire_field *field)
{
    struct tokenized event = {.im = im, .payload = wire_sub(field)};
    if (!field->data || field->size < TOKEN_SIZE) {
        stats_add(&im->stats, STAT_mmsql_modem_events_damaged, 1);
        return;
    }
    event.token = u32_at(field->data);
    event.payload.pos += TOKEN_SIZE;
    const uint64_t *index = map64_find(&modem->index, event.token);
    struct slice_name raw = index ? modem->texts.items[*index] : slice_name("Token not found");
    struct slice_name hex = import_text(im, "0x%02x", event.token);
    event.args[event.n_args++] = arg_name("raw_template", raw);
    event.args[event.n_args++] = arg_int("token_id", event.token);
    event.args[event.n_args++] = arg_name("token_id_hex", hex);
    event.args[event.n_args++] = arg_uint("packet_ts", (uint64_t)packet->ts);
    text_make(&event, raw);
    event_write(im, ts, &event, text_keep(im, modem, &event, raw));
    strbuf_done(&event.text);
}

// Writes the events of a packet. Events and their times are two lists in the same order.
static void events_sorted(struct import *im, const struct packet *packet)
{
    struct values times = values_of(packet->message, PB_PixelModemEvents_event_time_nanos);
    uint64_t ts = 0, passed;
    for (struct fields each = fields_of(packet->message, PB_PixelModemEvents_events);
         fields_next(&each);) {
        if (!values_next(&times, &passed)) {
            stats_add(&im->stats, STAT_mmsql_modem_events_damaged, 1);
            continue;
        }
        ts += passed;
        if (ts > INT64_MAX)
            stats_add(&im->stats, STAT_pixel_modem_negative_timestamp, 1);
        else
            event_read(im, packet->own, packet, (int64_t)ts, &each.field);
    }
}

static void modem_done(void *state)
{
    struct modem *modem = state;
    map64_done(&modem->index);
    modem_text_vec_done(&modem->texts);
}

const struct importer importer_modem_texts = {
    .field = PB_TracePacket_pixel_modem_token_database,
    .now = database_now,
    .state_size = sizeof(struct modem),
    .done = modem_done,
};
const struct importer importer_modem_events = {
    .field = PB_TracePacket_pixel_modem_events,
    .sorted = events_sorted,
    .shares = &importer_modem_texts,
};
