// SPDX-License-Identifier: Apache-2.0
//
// A trace as text, in the protobuf text format: `packet { ... }` for each packet. The text is read
// with the schema of the converter, and packets are written one by one.
//
// Nested messages are on a stack of a fixed depth. A packet that does not fit into the buffer is
// read again into a larger buffer. A packet with wrong syntax is left out, and reading continues at
// the next line that begins with `packet`. For a wrong value, or a field that the schema lacks,
// only the field is left out.
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/memory.h"
#include "common/pbtext_lex.h"
#include "common/text.h"
#include "converter/translate/translate.h"
#include "protos/fields.h"
#include "protos/names.h"

#define BUFFER_MIN ((size_t)1 << 20)
#define BUFFER_MAX ((size_t)256 << 20)
#define DEPTH_MAX  100
#define NUMBER_MAX ((UINT64_C(1) << 29) - 1) // of a field
#define FIXED_HEX  2                         // `0x` before the digits
#define TOLD_MAX   ((size_t)100)             // bytes of a name in a message

// A field, as the text names it
struct wanted {
    uint32_t number; // 0: unknown; the value is read and left out
    bool is_raw;     // not in the schema, but the text has its number
    enum named_type type;
    uint16_t of;
};

// A message that is open
struct level {
    const struct named_message *message; // NULL: not in the schema
    bool is_left_out;
    size_t mark;
    char close;
    bool in_list; // of values of `field`
    struct wanted field;
};

struct text_proto {
    struct translation *translation;
    struct pbtext_lexer lexer;
    struct level levels[DEPTH_MAX];
    size_t depth;
    uint8_t *buffer; // owned
    size_t buffer_size;
    struct wire_writer out;
    struct strbuf string;
    // `line` is the line of the address `counted`. The lines of later addresses are counted from
    // there.
    const char *counted;
    size_t line;
    uint64_t n_unknown, n_wrong, n_packets_wrong;
    char first_unknown[100], first_wrong[100], first_syntax[100];
};

static size_t line_of(struct text_proto *text, const char *at)
{
    for (; text->counted < at; text->counted++)
        text->line += *text->counted == '\n';
    return text->line;
}

// Keeps the first message of a kind, with its line.
__attribute__((format(printf, 4, 5))) static void tell(struct text_proto *text, char *first,
                                                       size_t size, const char *format, ...)
{
    if (*first)
        return;
    size_t line = line_of(text, text->lexer.token.start);
    int n = snprintf(first, size, "line %zu: ", line);
    va_list args;
    va_start(args, format);
    vsnprintf(first + n, size - (size_t)n, format, args);
    va_end(args);
}

#define TELL_UNKNOWN(text, ...)                                                                    \
    tell(text, (text)->first_unknown, sizeof((text)->first_unknown), __VA_ARGS__)
#define TELL_WRONG(text, ...)                                                                      \
    tell(text, (text)->first_wrong, sizeof((text)->first_wrong), __VA_ARGS__)

#define TELL_SYNTAX(text, ...)                                                                     \
    tell(text, (text)->first_syntax, sizeof((text)->first_syntax), __VA_ARGS__)

// Compares a word and a name in the order of strcmp(), which is the order of the names.
static int name_compare(struct text word, const char *name)
{
    int order = strncmp(word.at, name, word.size);
    return order ? order : -(name[word.size] != '\0');
}

static const struct named_field *field_find(const struct named_message *message, struct text word)
{
    size_t from = 0, to = message->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = name_compare(word, message->fields[middle].name);
        if (order == 0)
            return &message->fields[middle];
        *(order < 0 ? &to : &from) = order < 0 ? middle : middle + 1;
    }
    return NULL;
}

static const struct named_value *value_find(const struct named_enum *all, struct text word)
{
    size_t from = 0, to = all->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = name_compare(word, all->values[middle].name);
        if (order == 0)
            return &all->values[middle];
        *(order < 0 ? &to : &from) = order < 0 ? middle : middle + 1;
    }
    return NULL;
}

static struct text token_text(const struct text_proto *text)
{
    return (struct text){text->lexer.token.start, text->lexer.token.size};
}

static bool token_is(const struct text_proto *text, char symbol)
{
    return pbtext_token_is(&text->lexer.token, symbol);
}

static int next(struct text_proto *text)
{
    return pbtext_lexer_next(&text->lexer);
}

static int token_wrong(struct text_proto *text, const char *expected)
{
    char word[PBTEXT_TOKEN_TEXT_MAX];
    TELL_SYNTAX(text, "%s in place of %s", pbtext_token_text(&text->lexer.token, word), expected);
    return -EINVAL;
}

// Returns whether `packet` is at the start of a line: then the packet before is not closed.
static bool is_next_packet(const struct text_proto *text)
{
    const char *at = text->lexer.token.start;
    return text_eq(token_text(text), TEXT("packet")) && at > text->lexer.text && at[-1] == '\n';
}

static struct wanted field_named(struct text_proto *text, const struct level *level,
                                 struct text word)
{
    if (level->is_left_out)
        return (struct wanted){0};
    const struct named_field *field = level->message ? field_find(level->message, word) : NULL;
    if (field)
        return (struct wanted){.number = field->number, .type = field->type, .of = field->of};
    text->n_unknown++;
    TELL_UNKNOWN(text, "%s has no field \"%.*s\"",
                 level->message ? level->message->name : "a message",
                 (int)(word.size < TOLD_MAX ? word.size : TOLD_MAX), word.at);
    return (struct wanted){0};
}

// Reads `[package.Scope.name]`, an extension. The schema has the name after the package.
static int extension_read(struct text_proto *text, const struct level *level, struct wanted *ret)
{
    const struct text package = TEXT("perfetto.protos.");
    int r = next(text);
    strbuf_clear(&text->string);
    while (r == 0 && !token_is(text, ']')) {
        if (text->lexer.token.type != PBTEXT_IDENTIFIER && !token_is(text, '.') &&
            !token_is(text, '/'))
            return token_wrong(text, "the name of an extension");
        strbuf_add(&text->string, text->lexer.token.start, text->lexer.token.size);
        r = next(text);
    }
    if (r == 0 && text->string.failed)
        return -ENOMEM;
    struct text name = {text->string.text ? text->string.text : "", text->string.size};
    if (text_starts_with(name, package))
        name = (struct text){name.at + package.size, name.size - package.size};
    if (r == 0)
        *ret = field_named(text, level, name);
    return r < 0 ? r : next(text);
}

static int field_read(struct text_proto *text, const struct level *level, struct wanted *ret)
{
    uint64_t number;
    if (token_is(text, '['))
        return extension_read(text, level, ret);
    if (text->lexer.token.type == PBTEXT_NUMBER) {
        if (pbtext_token_to_u64(&text->lexer.token, &number) < 0 || !number || number > NUMBER_MAX)
            return token_wrong(text, "a field");
        *ret = (struct wanted){.number = level->is_left_out ? 0 : (uint32_t)number, .is_raw = true};
        return next(text);
    }
    if (text->lexer.token.type != PBTEXT_IDENTIFIER || is_next_packet(text))
        return token_wrong(text, "a field");
    *ret = field_named(text, level, token_text(text));
    return next(text);
}

static int value_wrong(struct text_proto *text, const char *expected)
{
    char word[PBTEXT_TOKEN_TEXT_MAX];
    text->n_wrong++;
    TELL_WRONG(text, "%s is not %s", pbtext_token_text(&text->lexer.token, word), expected);
    return 0;
}

// Reads one or more adjacent strings.
static int string_read(struct text_proto *text, const struct wanted *field)
{
    int r = 0;
    if (!field->is_raw && field->type != NAMED_STRING && field->type != NAMED_BYTES &&
        field->number)
        value_wrong(text, "a value of this field");
    strbuf_clear(&text->string);
    while (r == 0 && text->lexer.token.type == PBTEXT_STRING) {
        r = pbtext_lexer_unescape(&text->lexer, &text->string);
        if (r == 0)
            r = next(text);
    }
    if (r == 0 && text->string.failed)
        return -ENOMEM;
    bool fits = field->is_raw || field->type == NAMED_STRING || field->type == NAMED_BYTES;
    if (r == 0 && field->number && fits)
        wire_bytes(&text->out, field->number, text->string.text ? text->string.text : "",
                   text->string.size);
    return r;
}

struct whole {
    uint64_t value;
    bool is_negative;
};

// Returns true if the number is between the limits of a type of `bits` bits.
static bool whole_fits(struct whole whole, unsigned bits, bool is_signed)
{
    uint64_t top = UINT64_C(1) << (bits - 1);
    if (whole.is_negative)
        return whole.value == 0 || (is_signed && whole.value <= top);
    return is_signed ? whole.value < top : bits == 64 || whole.value < top * 2;
}

static void whole_write(struct text_proto *text, const struct wanted *field, struct whole whole)
{
    struct wire_writer *out = &text->out;
    uint32_t number = field->number;
    int64_t value = (int64_t)(whole.is_negative ? 0 - whole.value : whole.value);
    bool is_small = field->type == NAMED_INT32 || field->type == NAMED_UINT32 ||
                    field->type == NAMED_SINT32 || field->type == NAMED_FIXED32 ||
                    field->type == NAMED_SFIXED32 || field->type == NAMED_ENUM;
    bool is_unsigned = field->type == NAMED_UINT32 || field->type == NAMED_UINT64 ||
                       field->type == NAMED_FIXED32 || field->type == NAMED_FIXED64;
    if (!whole_fits(whole, is_small ? 32 : 64, !is_unsigned)) {
        value_wrong(text, "between the limits of its type");
        return;
    }
    switch (field->type) {
    case NAMED_SINT32:
    case NAMED_SINT64:
        wire_sint(out, number, value);
        break;
    case NAMED_FIXED32:
    case NAMED_SFIXED32:
        wire_fixed32(out, number, (uint32_t)value);
        break;
    case NAMED_FIXED64:
    case NAMED_SFIXED64:
        wire_fixed64(out, number, (uint64_t)value);
        break;
    default:
        wire_int(out, number, value);
    }
}

static void real_write(struct text_proto *text, const struct wanted *field, double value)
{
    float small = (float)value;
    uint32_t bits;
    memcpy(&bits, &small, sizeof(bits));
    if (field->type == NAMED_DOUBLE)
        wire_double(&text->out, field->number, value);
    else
        wire_fixed32(&text->out, field->number, bits);
}

// Writes a number without a type: protoc prints fixed numbers with all hexadecimal digits.
static void raw_write(struct text_proto *text, const struct wanted *field, struct whole whole)
{
    struct text word = token_text(text);
    bool is_hex = word.size > FIXED_HEX && (word.at[1] | 0x20) == 'x';
    size_t n_digits = is_hex ? word.size - FIXED_HEX : 0;
    if (n_digits == sizeof(uint64_t) * 2)
        wire_fixed64(&text->out, field->number, whole.value);
    else if (n_digits == sizeof(uint32_t) * 2)
        wire_fixed32(&text->out, field->number, (uint32_t)whole.value);
    else
        wire_uint(&text->out, field->number, whole.is_negative ? 0 - whole.value : whole.value);
}

static bool is_real(const struct wanted *field)
{
    return field->type == NAMED_DOUBLE || field->type == NAMED_FLOAT;
}

static void number_read(struct text_proto *text, const struct wanted *field, bool is_negative)
{
    struct whole whole = {.is_negative = is_negative};
    double real;
    if (!field->is_raw && is_real(field)) {
        if (pbtext_token_to_double(&text->lexer.token, &real) < 0)
            value_wrong(text, "a number");
        else
            real_write(text, field, is_negative ? -real : real);
        return;
    }
    if (pbtext_token_to_u64(&text->lexer.token, &whole.value) < 0)
        value_wrong(text, "a whole number");
    else if (field->is_raw)
        raw_write(text, field, whole);
    else if (field->type == NAMED_BOOL && whole.value > 1)
        value_wrong(text, "true or false");
    else if (field->type == NAMED_STRING || field->type == NAMED_BYTES ||
             field->type == NAMED_MESSAGE)
        value_wrong(text, "a value of this field");
    else
        whole_write(text, field, whole);
}

static bool word_is(struct text word, const char *const *words)
{
    for (; *words; words++)
        if (text_eq(word, text_from(*words)))
            return true;
    return false;
}

static void word_read(struct text_proto *text, const struct wanted *field, bool is_negative)
{
    static const char *const trues[] = {"true", "True", "t", NULL},
                             *const falses[] = {"false", "False", "f", NULL},
                             *const infinities[] = {"inf", "infinity", "Infinity", NULL},
                             *const no_numbers[] = {"nan", "NaN", NULL};
    struct text word = token_text(text);
    const struct named_value *value;
    bool is_true = word_is(word, trues);
    if (!field->is_raw && field->type == NAMED_ENUM && !is_negative) {
        value = value_find(&named_enums[field->of], word);
        if (value)
            wire_int(&text->out, field->number, value->number);
        else
            value_wrong(text, "a value of this enum");
    } else if (!field->is_raw && field->type == NAMED_BOOL && !is_negative &&
               (is_true || word_is(word, falses))) {
        wire_uint(&text->out, field->number, is_true);
    } else if (!field->is_raw && is_real(field) && word_is(word, infinities)) {
        real_write(text, field, is_negative ? -(double)INFINITY : (double)INFINITY);
    } else if (!field->is_raw && is_real(field) && word_is(word, no_numbers)) {
        real_write(text, field, (double)NAN);
    } else {
        value_wrong(text, "a value of this field");
    }
}

static int scalar_read(struct text_proto *text, const struct wanted *field)
{
    bool is_negative = token_is(text, '-');
    int r = is_negative ? next(text) : 0;
    if (r < 0)
        return r;
    if (text->lexer.token.type == PBTEXT_STRING && !is_negative)
        return string_read(text, field);
    if (text->lexer.token.type == PBTEXT_NUMBER) {
        if (field->number)
            number_read(text, field, is_negative);
        return next(text);
    }
    if (text->lexer.token.type != PBTEXT_IDENTIFIER || is_next_packet(text))
        return token_wrong(text, "a value");
    if (field->number)
        word_read(text, field, is_negative);
    return next(text);
}

// Opens a message: the value of a field of the present level.
static int message_open(struct text_proto *text, struct wanted field)
{
    if (text->depth == DEPTH_MAX) {
        TELL_SYNTAX(text, "messages are nested deeper than %d", DEPTH_MAX);
        return -EINVAL;
    }
    bool is_known = field.number && (field.is_raw || field.type == NAMED_MESSAGE);
    if (field.number && !is_known)
        value_wrong(text, "a value of this field");
    struct level *level = &text->levels[text->depth++];
    *level = (struct level){
        .is_left_out = !is_known,
        .message = is_known && !field.is_raw ? &named_messages[field.of] : NULL,
        .close = token_is(text, '{') ? '}' : '>',
    };
    if (is_known)
        level->mark = wire_begin(&text->out, field.number);
    return next(text);
}

static int value_read(struct text_proto *text, struct wanted field)
{
    if (token_is(text, '{') || token_is(text, '<'))
        return message_open(text, field);
    return scalar_read(text, &field);
}

// Ends the innermost message.
static int message_close(struct text_proto *text)
{
    const struct level *level = &text->levels[--text->depth];
    if (!level->is_left_out && text->depth)
        wire_end(&text->out, level->mark);
    return next(text);
}

// Reads the next part of the innermost message: a field, an element of a list, or an end.
static int step(struct text_proto *text)
{
    struct level *level = &text->levels[text->depth - 1];
    if (token_is(text, ',') || token_is(text, ';'))
        return next(text);
    if (level->in_list) {
        if (!token_is(text, ']'))
            return value_read(text, level->field);
        level->in_list = false;
        return next(text);
    }
    if (token_is(text, level->close))
        return message_close(text);
    struct wanted field = {0};
    int r = field_read(text, level, &field);
    if (r == 0 && token_is(text, ':'))
        r = next(text);
    if (r == 0 && token_is(text, '[')) {
        level->in_list = true;
        level->field = field;
        return next(text);
    }
    return r < 0 ? r : value_read(text, field);
}

// Reads the body of a packet, up to its end.
static int body_read(struct text_proto *text)
{
    int r = 0;
    text->levels[0] = (struct level){
        .message = &named_messages[0],
        .close = token_is(text, '{') ? '}' : '>',
    };
    text->depth = 1;
    r = next(text);
    while (r == 0 && text->depth && !text->out.overflow)
        r = step(text);
    return r;
}

static int buffer_grow(struct text_proto *text)
{
    size_t size = text->buffer_size * 2;
    if (size > BUFFER_MAX) {
        TELL_SYNTAX(text, "the packet is larger than %zu MiB", BUFFER_MAX >> 20);
        return -EINVAL;
    }
    uint8_t *buffer = memory_malloc(size);
    if (!buffer)
        return -ENOMEM;
    free(text->buffer);
    text->buffer = buffer;
    text->buffer_size = size;
    return 0;
}

// Reads the packet at `{`. Returns -EINVAL if its syntax is wrong.
static int packet_read(struct text_proto *text)
{
    const struct pbtext_lexer start = text->lexer;
    uint64_t n_unknown = text->n_unknown, n_wrong = text->n_wrong;
    for (;;) {
        text->out = wire_writer_over(text->buffer, text->buffer_size);
        int r = body_read(text);
        if (r == 0 && !text->out.overflow)
            packets_put_whole(&text->translation->packets, text->out.start, wire_size(&text->out));
        if (r < 0 || !text->out.overflow)
            return r;
        r = buffer_grow(text);
        if (r < 0)
            return r;
        text->lexer = start;
        text->n_unknown = n_unknown;
        text->n_wrong = n_wrong;
    }
}

// Finds the next line after `from` that begins with `packet`. The reader of a packet also stops at
// such a line, so no text is read more than twice.
static bool packet_seek(struct text_proto *text, const char *from)
{
    const struct text word = TEXT("\npacket");
    struct pbtext_lexer *lexer = &text->lexer;
    while (from < lexer->end) {
        const char *found = memmem(from, (size_t)(lexer->end - from), word.at, word.size);
        if (!found)
            break;
        lexer->pos = found + 1;
        if (next(text) == 0 && text_eq(token_text(text), TEXT("packet")))
            return true;
        from = found + 1;
    }
    lexer->pos = lexer->end;
    next(text);
    return false;
}

// Reads `packet {`, up to the brace.
static int packet_begin(struct text_proto *text)
{
    if (!text_eq(token_text(text), TEXT("packet")))
        return token_wrong(text, "\"packet\"");
    int r = next(text);
    if (r == 0 && token_is(text, ':'))
        r = next(text);
    if (r == 0 && !token_is(text, '{') && !token_is(text, '<'))
        return token_wrong(text, "\"{\"");
    return r;
}

static int packets_read(struct text_proto *text)
{
    struct translation *translation = text->translation;
    int r = 0;
    while (r == 0 && text->lexer.token.type != PBTEXT_END) {
        const char *before = text->lexer.token.start;
        if (token_is(text, ',') || token_is(text, ';')) {
            r = next(text);
        } else {
            r = packet_begin(text);
            if (r == 0)
                r = packet_read(text);
        }
        if (r == -EINVAL) {
            TELL_SYNTAX(text, "the syntax is wrong");
            text->n_packets_wrong++;
            packet_seek(text, before);
            r = 0;
        }
        if (r == 0)
            r = translation_step(translation, (size_t)(text->lexer.pos - before));
    }
    return r;
}

// Reports the parts that were left out, and writes their numbers into the trace.
static void problems_tell(struct text_proto *text)
{
    struct translation *translation = text->translation;
    const char *first = *text->first_syntax ? text->first_syntax : text->first_wrong;
    char packets[48] = "", values[48] = "";
    if (text->n_packets_wrong)
        snprintf(packets, sizeof(packets), "; packets left out: %" PRIu64, text->n_packets_wrong);
    if (text->n_wrong)
        snprintf(values, sizeof(values), "; values left out: %" PRIu64, text->n_wrong);
    if (*first)
        translation_damage(translation, "%s%s%s", first, packets, values);
    if (text->n_unknown)
        translation_note(translation, "%s; fields that this mmsql does not know: %" PRIu64,
                         text->first_unknown, text->n_unknown);
    struct wire_writer *w = packets_begin(&translation->packets, PACKETS_NO_TIME);
    size_t mark = wire_begin(w, PB_TracePacket_translation_problems);
    if (text->n_unknown)
        wire_uint(w, PB_TranslationProblems_unknown_fields, text->n_unknown);
    if (text->n_wrong)
        wire_uint(w, PB_TranslationProblems_wrong_values, text->n_wrong);
    if (text->n_packets_wrong)
        wire_uint(w, PB_TranslationProblems_wrong_packets, text->n_packets_wrong);
    wire_end(w, mark);
    packets_end(&translation->packets);
}

static int text_proto_run(struct translation *translation)
{
    const struct input *input = translation->input;
    CLEANUP(freep) struct text_proto *text = memory_calloc(1, sizeof(*text));
    if (!text)
        return err_errno(translation->err, -ENOMEM, "text");
    text->translation = translation;
    text->buffer_size = BUFFER_MIN;
    text->buffer = memory_malloc(BUFFER_MIN);
    text->line = 1;
    text->counted = (const char *)input_bytes(input);
    int r = text->buffer ? 0 : -ENOMEM;
    if (r == 0 && pbtext_lexer_start(&text->lexer, "", text->counted, input_size(input), NULL) < 0)
        packet_seek(text, text->lexer.text);
    if (r == 0)
        r = packets_read(text);
    if (r == 0 && (text->n_unknown || text->n_wrong || text->n_packets_wrong))
        problems_tell(text);
    free(text->buffer);
    strbuf_done(&text->string);
    return r == -ENOMEM ? err_errno(translation->err, r, "text") : r;
}

const struct translator translator_text_proto = {.type = "proto", .run = text_proto_run};
