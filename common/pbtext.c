// SPDX-License-Identifier: Apache-2.0
//
// A recursive descent over the text, limited by PBTEXT_DEPTH_MAX. Values go straight into the
// protobuf-c struct that the descriptor describes. Every message is linked into its parent as soon
// as it exists, and counts and pointers are set only after their targets exist. Therefore the root
// can be released at any point, and an error needs no other cleanup.
//
// As protobuf's own parser for proto2, the parser refuses a second value for a field that is not
// repeated, two members of one oneof, numbers outside of an enum, hexadecimal for a float. The
// parser also refuses three values that would silently change: a NUL byte in a string field (a C
// string ends there), an octal escape above \377, and half of a surrogate pair.
#include "common/pbtext.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <strings.h>

#include "common/cleanup.h"
#include "common/pbtext_field.h"
#include "common/pbtext_lex.h"

#define SUGGESTION_MAX    160
#define LIST_OF_NAMES_MAX 100 // characters; longer lists of names are not printed

// A message during the parse.
struct target {
    const ProtobufCMessageDescriptor *descriptor;
    ProtobufCMessage *message;   // owned by its parent
    const struct target *parent; // borrowed; NULL for the root
    const char **seen;           // owned: per field, the place of its first value in the text, or
                                 // NULL
    unsigned depth;
};

static int parse_fields(struct pbtext_lexer *p, struct target *target, char closer,
                        const char *opened);

static int out_of_memory(struct pbtext_lexer *p)
{
    return err_set(p->err, -ENOMEM, "%s: not enough memory", p->name);
}

static bool accept(struct pbtext_lexer *p, char symbol, int *r)
{
    if (!pbtext_token_is(&p->token, symbol))
        return false;
    *r = pbtext_lexer_next(p);
    return true;
}

static int unexpected(struct pbtext_lexer *p, const char *wanted)
{
    char found[PBTEXT_TOKEN_TEXT_MAX];
    return pbtext_lexer_error(p, -EINVAL, p->token.start, "expected %s, found %s", wanted,
                              pbtext_token_text(&p->token, found));
}

static int expect_value(struct pbtext_lexer *p, const ProtobufCFieldDescriptor *field,
                        const char *wanted)
{
    char found[PBTEXT_TOKEN_TEXT_MAX];
    return pbtext_lexer_error(p, -EINVAL, p->token.start, "\"%s\" takes %s, found %s", field->name,
                              wanted, pbtext_token_text(&p->token, found));
}

static const char *short_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

// Fills `ret` with ", did you mean ..." for the token, with the whole list if the list is short, or
// with "".
static void suggest(const struct pbtext_token *token, const char *const *names, size_t n,
                    char ret[SUGGESTION_MAX])
{
    char word[PBTEXT_TOKEN_TEXT_MAX];
    ret[0] = '\0';
    if (token->size >= sizeof(word) || !names)
        return;
    memcpy(word, token->start, token->size);
    word[token->size] = '\0';
    const char *near = NULL;
    size_t list_size = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(names[i], word) == 0)
            near = names[i];
        list_size += strlen(names[i]) + 2;
    }
    if (!near)
        near = str_nearest(word, names, n);
    if (near) {
        snprintf(ret, SUGGESTION_MAX, ", did you mean \"%s\"?", near);
    } else if (n && list_size <= LIST_OF_NAMES_MAX) {
        size_t used = (size_t)snprintf(ret, SUGGESTION_MAX, "; it is one of ");
        for (size_t i = 0; i < n; i++)
            used += (size_t)snprintf(ret + used, SUGGESTION_MAX - used, "%s%s", i ? ", " : "",
                                     names[i]);
    }
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessageDescriptor *descriptor,
                                                  const struct pbtext_token *token)
{
    for (unsigned i = 0; i < descriptor->n_fields; i++)
        if (pbtext_token_eq(token, descriptor->fields[i].name))
            return &descriptor->fields[i];
    return NULL;
}

// Returns the message field of `descriptor` that has a field with the token's name. People often
// forget a level.
static const ProtobufCFieldDescriptor *level_below(const ProtobufCMessageDescriptor *descriptor,
                                                   const struct pbtext_token *token)
{
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (field->type == PROTOBUF_C_TYPE_MESSAGE && find_field(field->descriptor, token))
            return field;
    }
    return NULL;
}

static bool exists_above(const struct target *target, const struct pbtext_token *token)
{
    for (target = target->parent; target; target = target->parent)
        if (find_field(target->descriptor, token))
            return true;
    return false;
}

static int unknown_field(struct pbtext_lexer *p, const struct target *target)
{
    const ProtobufCMessageDescriptor *descriptor = target->descriptor;
    const struct pbtext_token *token = &p->token;
    char found[PBTEXT_TOKEN_TEXT_MAX], suggestion[SUGGESTION_MAX];
    pbtext_token_text(token, found);
    const ProtobufCFieldDescriptor *below = level_below(descriptor, token);
    if (below) {
        snprintf(suggestion, sizeof(suggestion), ", did you mean \"%s { %.*s }\"?", below->name,
                 (int)token->size, token->start);
    } else if (exists_above(target, token)) {
        snprintf(suggestion, sizeof(suggestion), ", is a closing brace missing before it?");
    } else {
        CLEANUP(freep) const char **names = calloc(descriptor->n_fields + 1, sizeof(*names));
        for (unsigned i = 0; names && i < descriptor->n_fields; i++)
            names[i] = descriptor->fields[i].name;
        suggest(token, names, descriptor->n_fields, suggestion);
    }
    return pbtext_lexer_error(p, -EINVAL, token->start, "unknown field %s in %s%s", found,
                              short_name(descriptor->name), suggestion);
}

// Returns the size of the common prefix of an enum's values, up to and including an underscore:
// "VMSTAT_".
static size_t common_prefix(const char *const *names, size_t n)
{
    size_t size = n > 1 ? strlen(names[0]) : 0;
    for (size_t i = 1; i < n; i++)
        for (size_t at = 0; at < size; at++)
            if (names[i][at] != names[0][at])
                size = at;
    while (size > 0 && names[0][size - 1] != '_')
        size--;
    return size;
}

// Returns the only value that begins with the word, or NULL.
static const char *only_longer(const char *word, const char *const *names, size_t n)
{
    const char *found = NULL;
    for (size_t i = 0; i < n; i++) {
        if (strncmp(names[i], word, strlen(word)) != 0)
            continue;
        if (found)
            return NULL;
        found = names[i];
    }
    return found;
}

// Suggests an enum value. People leave out the common prefix of the values, and the prefix would
// make any two values look similar. Therefore only the rest is compared, without regard to case.
static bool suggest_value(const struct pbtext_token *token, const char **names, size_t n,
                          char ret[SUGGESTION_MAX])
{
    char text[PBTEXT_TOKEN_TEXT_MAX], *word = text;
    size_t prefix = common_prefix(names, n);
    if (token->size >= sizeof(text))
        return false;
    for (size_t i = 0; i < token->size; i++)
        text[i] = (char)toupper((unsigned char)token->start[i]);
    text[token->size] = '\0';
    if (prefix > 0 && strncmp(text, names[0], prefix) == 0)
        word += prefix;
    for (size_t i = 0; i < n; i++)
        names[i] += prefix;
    const char *near = str_nearest(word, names, n);
    if (!near && *word)
        near = only_longer(word, names, n);
    for (size_t i = 0; i < n; i++)
        names[i] -= prefix;
    if (near)
        snprintf(ret, SUGGESTION_MAX, ", did you mean \"%s\"?", near - prefix);
    return near;
}

static int unknown_enum_value(struct pbtext_lexer *p, const ProtobufCFieldDescriptor *field)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;
    char found[PBTEXT_TOKEN_TEXT_MAX], suggestion[SUGGESTION_MAX];
    CLEANUP(freep) const char **names = calloc(type->n_value_names + 1, sizeof(*names));
    for (unsigned i = 0; names && i < type->n_value_names; i++)
        names[i] = type->values_by_name[i].name;
    if (!names || !suggest_value(&p->token, names, type->n_value_names, suggestion))
        suggest(&p->token, names, type->n_value_names, suggestion);
    return pbtext_lexer_error(p, -EINVAL, p->token.start, "unknown value %s for \"%s\"%s",
                              pbtext_token_text(&p->token, found), field->name, suggestion);
}

struct int_range {
    int64_t min;
    uint64_t max;
};

static struct int_range range_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_ENUM:
        return (struct int_range){INT32_MIN, INT32_MAX};
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return (struct int_range){INT64_MIN, INT64_MAX};
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return (struct int_range){0, UINT64_MAX};
    default:
        return (struct int_range){0, UINT32_MAX};
    }
}

// Reads `[-]number` into *ret, as two's complement, and checks the field's range.
static int parse_integer(struct pbtext_lexer *p, const ProtobufCFieldDescriptor *field,
                         uint64_t *ret)
{
    struct int_range range = range_of(field->type);
    const char *start = p->token.start;
    int r = 0;
    bool negative = accept(p, '-', &r);
    if (r < 0)
        return r;
    uint64_t magnitude = 0;
    if (p->token.type != PBTEXT_NUMBER)
        return expect_value(p, field, "a whole number");
    r = pbtext_token_to_u64(&p->token, &magnitude);
    if (r == -EINVAL)
        return expect_value(p, field, "a whole number");
    uint64_t limit = negative ? 0 - (uint64_t)range.min : range.max;
    if (r < 0 || magnitude > limit || (negative && range.min == 0)) {
        char found[PBTEXT_TOKEN_TEXT_MAX];
        pbtext_token_text(&p->token, found);
        return pbtext_lexer_error(p, -EINVAL, start,
                                  "%s%.*s is out of range: \"%s\" takes %" PRId64 " to %" PRIu64,
                                  negative ? "-" : "", (int)strlen(found) - 2, found + 1,
                                  field->name, range.min, range.max);
    }
    *ret = negative ? 0 - magnitude : magnitude;
    return pbtext_lexer_next(p);
}

static int parse_enum(struct pbtext_lexer *p, const ProtobufCFieldDescriptor *field, void *member)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;
    struct pbtext_token first = p->token;
    int32_t value = 0;
    if (first.type == PBTEXT_IDENTIFIER) {
        const ProtobufCEnumValue *found = NULL;
        for (unsigned i = 0; i < type->n_value_names && !found; i++)
            if (pbtext_token_eq(&first, type->values_by_name[i].name))
                found = &type->values[type->values_by_name[i].index];
        if (!found)
            return unknown_enum_value(p, field);
        value = found->value;
        memcpy(member, &value, sizeof(value));
        return pbtext_lexer_next(p);
    }
    if (first.type != PBTEXT_NUMBER && !pbtext_token_is(&first, '-'))
        return expect_value(p, field, "the name or number of a value");
    uint64_t number;
    int r = parse_integer(p, field, &number);
    if (r < 0)
        return r;
    value = (int32_t)(uint32_t)number;
    if (!protobuf_c_enum_descriptor_get_value(type, value))
        return pbtext_lexer_error(p, -EINVAL, first.start, "unknown value %" PRId32 " for \"%s\"",
                                  value, field->name);
    memcpy(member, &value, sizeof(value));
    return 0;
}

static int parse_bool(struct pbtext_lexer *p, const ProtobufCFieldDescriptor *field, void *member)
{
    static const char *const names[] = {"false", "False", "f", "true", "True", "t"};
    const struct pbtext_token *token = &p->token;
    uint64_t number = 2;
    if (token->type == PBTEXT_NUMBER && pbtext_token_to_u64(token, &number) < 0)
        number = 2;
    for (size_t i = 0; token->type == PBTEXT_IDENTIFIER && i < 6; i++)
        if (pbtext_token_eq(token, names[i]))
            number = i / 3;
    if (number > 1)
        return expect_value(p, field, "true or false");
    *(protobuf_c_boolean *)member = (protobuf_c_boolean)number;
    return pbtext_lexer_next(p);
}

static int parse_double(struct pbtext_lexer *p, const ProtobufCFieldDescriptor *field, double *ret)
{
    int r = 0;
    bool negative = accept(p, '-', &r);
    if (r < 0)
        return r;
    const struct pbtext_token *token = &p->token;
    double value = 0;
    bool found = false;
    if (token->type == PBTEXT_NUMBER) {
        found = pbtext_token_to_double(token, &value) == 0;
    } else if (token->type == PBTEXT_IDENTIFIER) {
        static const char *const names[] = {"inf", "infinity", "nan"};
        for (size_t i = 0; i < 3 && !found; i++)
            if (token->size == strlen(names[i]) &&
                strncasecmp(token->start, names[i], token->size) == 0) {
                value = i == 2 ? (double)NAN : (double)INFINITY;
                found = true;
            }
    }
    if (!found)
        return expect_value(p, field, "a decimal number");
    *ret = negative ? -value : value;
    return pbtext_lexer_next(p);
}

static float to_float(double value)
{
    if (value > (double)FLT_MAX || value < -(double)FLT_MAX) {
        // A number up to half a step above FLT_MAX rounds down to FLT_MAX.
        double edge = (double)FLT_MAX * (1 + (double)FLT_EPSILON / 4);
        float magnitude = fabs(value) < edge ? FLT_MAX : INFINITY;
        return value < 0 ? -magnitude : magnitude;
    }
    return (float)value;
}

// Reads one or more adjacent strings.
static int parse_string(struct pbtext_lexer *p, const ProtobufCFieldDescriptor *field,
                        struct strbuf *out)
{
    if (p->token.type != PBTEXT_STRING)
        return expect_value(p, field, "a string in quotes");
    while (p->token.type == PBTEXT_STRING) {
        size_t before = out->size;
        int r = pbtext_lexer_unescape(p, out);
        if (r < 0)
            return r;
        if (out->failed)
            return out_of_memory(p);
        if (field->type == PROTOBUF_C_TYPE_STRING && out->size > before &&
            memchr(out->text + before, '\0', out->size - before))
            return pbtext_lexer_error(p, -EINVAL, p->token.start, "\"%s\" cannot hold a NUL byte",
                                      field->name);
        r = pbtext_lexer_next(p);
        if (r < 0)
            return r;
    }
    return 0;
}

static int parse_string_into(struct pbtext_lexer *p, const ProtobufCFieldDescriptor *field,
                             void *member)
{
    CLEANUP(strbuf_done) struct strbuf buf = {0};
    int r = parse_string(p, field, &buf);
    if (r < 0)
        return r;
    size_t size = buf.size;
    char *text = strbuf_steal(&buf);
    if (!text)
        return out_of_memory(p);
    if (field->type == PROTOBUF_C_TYPE_BYTES)
        *(ProtobufCBinaryData *)member = (ProtobufCBinaryData){size, (uint8_t *)text};
    else
        *(char **)member = text;
    return 0;
}

static int parse_submessage(struct pbtext_lexer *p, const struct target *parent,
                            const ProtobufCFieldDescriptor *field, ProtobufCMessage *message)
{
    struct target target = {.descriptor = field->descriptor,
                            .message = message,
                            .parent = parent,
                            .depth = parent->depth + 1};
    const char *opened = p->token.start;
    char closer = *opened == '<' ? '>' : '}';
    if (target.depth > PBTEXT_DEPTH_MAX)
        return pbtext_lexer_error(p, -E2BIG, opened, "messages nest deeper than %d levels",
                                  PBTEXT_DEPTH_MAX);
    int r = pbtext_lexer_next(p);
    return r < 0 ? r : parse_fields(p, &target, closer, opened);
}

static ProtobufCMessage *message_new(const ProtobufCMessageDescriptor *descriptor)
{
    ProtobufCMessage *message = malloc(descriptor->sizeof_message);
    if (message)
        protobuf_c_message_init(descriptor, message);
    return message;
}

// Reads a value other than a message into `member`, which has zeros or the default.
static int parse_scalar(struct pbtext_lexer *p, const ProtobufCFieldDescriptor *field, void *member)
{
    uint64_t number;
    double real;
    int r;
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
        return parse_string_into(p, field, member);
    case PROTOBUF_C_TYPE_ENUM:
        return parse_enum(p, field, member);
    case PROTOBUF_C_TYPE_BOOL:
        return parse_bool(p, field, member);
    case PROTOBUF_C_TYPE_DOUBLE:
        return parse_double(p, field, member);
    case PROTOBUF_C_TYPE_FLOAT:
        r = parse_double(p, field, &real);
        if (r == 0)
            *(float *)member = to_float(real);
        return r;
    default:
        r = parse_integer(p, field, &number);
        if (r < 0)
            return r;
        if (pbtext_field_size(field->type) == 8)
            *(uint64_t *)member = number;
        else
            *(uint32_t *)member = (uint32_t)number;
        return 0;
    }
}

static void *member_of(const struct target *target, unsigned offset)
{
    return (char *)target->message + offset;
}

// Appends one value to a repeated field. The capacity is the next power of two above the count.
static int parse_element(struct pbtext_lexer *p, struct target *target,
                         const ProtobufCFieldDescriptor *field)
{
    size_t *n = member_of(target, field->quantifier_offset);
    void **items = member_of(target, field->offset);
    size_t size = pbtext_field_size(field->type);
    if ((*n & (*n - 1)) == 0) {
        size_t capacity = *n ? *n * 2 : 1;
        void *grown = capacity > SIZE_MAX / 2 / size ? NULL : realloc(*items, capacity * size);
        if (!grown)
            return out_of_memory(p);
        *items = grown;
    }
    char *element = (char *)*items + *n * size;
    memset(element, 0, size);
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
        int r = parse_scalar(p, field, element);
        *n += r == 0;
        return r;
    }
    ProtobufCMessage *message = message_new(field->descriptor);
    if (!message)
        return out_of_memory(p);
    *(ProtobufCMessage **)element = message;
    ++*n;
    return parse_submessage(p, target, field, message);
}

static void set_present(struct target *target, const ProtobufCFieldDescriptor *field)
{
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        *(uint32_t *)member_of(target, field->quantifier_offset) = field->id;
    else if (field->quantifier_offset)
        *(protobuf_c_boolean *)member_of(target, field->quantifier_offset) = 1;
}

static int parse_single(struct pbtext_lexer *p, struct target *target,
                        const ProtobufCFieldDescriptor *field)
{
    void *member = member_of(target, field->offset);
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
        int r = parse_scalar(p, field, member);
        if (r == 0)
            set_present(target, field);
        return r;
    }
    ProtobufCMessage *message = message_new(field->descriptor);
    if (!message)
        return out_of_memory(p);
    *(ProtobufCMessage **)member = message;
    set_present(target, field);
    return parse_submessage(p, target, field, message);
}

static bool opens_message(const struct pbtext_token *token)
{
    return pbtext_token_is(token, '{') || pbtext_token_is(token, '<');
}

static int parse_value(struct pbtext_lexer *p, struct target *target,
                       const ProtobufCFieldDescriptor *field)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE && !opens_message(&p->token))
        return expect_value(p, field, "a message in braces");
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return parse_element(p, target, field);
    return parse_single(p, target, field);
}

// Reads a list after its opening bracket.
static int parse_list(struct pbtext_lexer *p, struct target *target,
                      const ProtobufCFieldDescriptor *field)
{
    int r = 0;
    if (accept(p, ']', &r))
        return r;
    for (;;) {
        r = parse_value(p, target, field);
        if (r < 0 || accept(p, ']', &r))
            return r;
        if (!accept(p, ',', &r))
            return unexpected(p, "\",\" or \"]\"");
        if (r < 0)
            return r;
    }
}

// Refuses a second value for a single field, and a second member of a oneof.
static int check_first(struct pbtext_lexer *p, const struct target *target,
                       const ProtobufCFieldDescriptor *field, const char *at)
{
    size_t index = (size_t)(field - target->descriptor->fields);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return 0;
    if (target->seen[index])
        return pbtext_lexer_error(p, -EINVAL, at, "\"%s\" is given twice, first on line %zu",
                                  field->name, pbtext_lexer_line(p, target->seen[index]));
    if (!(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF))
        return 0;
    for (unsigned i = 0; i < target->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *other = &target->descriptor->fields[i];
        if (target->seen[i] && (other->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
            other->quantifier_offset == field->quantifier_offset)
            return pbtext_lexer_error(
                p, -EINVAL, at, "\"%s\" and \"%s\" (line %zu) exclude each other", field->name,
                other->name, pbtext_lexer_line(p, target->seen[i]));
    }
    return 0;
}

static int refuse_extension(struct pbtext_lexer *p)
{
    const char *at = p->token.start, *end = at;
    bool any = false;
    while (end < p->end && *end != ']' && *end != '\n' && end - at < 80)
        any |= *end++ == '/';
    return pbtext_lexer_error(p, -EINVAL, at,
                              any ? "messages of any type ([url/type]) are not supported"
                                  : "extensions ([package.name]) are not supported");
}

static int parse_field(struct pbtext_lexer *p, struct target *target)
{
    struct pbtext_token name = p->token;
    if (pbtext_token_is(&name, '['))
        return refuse_extension(p);
    if (name.type != PBTEXT_IDENTIFIER)
        return unexpected(p, "the name of a field");
    const ProtobufCFieldDescriptor *field = find_field(target->descriptor, &name);
    if (!field)
        return unknown_field(p, target);
    int r = check_first(p, target, field, name.start);
    if (r < 0)
        return r;
    target->seen[field - target->descriptor->fields] = name.start;
    r = pbtext_lexer_next(p);
    if (r < 0)
        return r;

    bool is_message = field->type == PROTOBUF_C_TYPE_MESSAGE;
    if (!accept(p, ':', &r) && !is_message) {
        char wanted[PBTEXT_TOKEN_TEXT_MAX * 2];
        snprintf(wanted, sizeof(wanted), "\":\" after \"%s\"", field->name);
        return unexpected(p, wanted);
    }
    if (r < 0)
        return r;
    if (pbtext_token_is(&p->token, '[')) {
        if (field->label != PROTOBUF_C_LABEL_REPEATED)
            return expect_value(p, field, "one value, not a list");
        r = pbtext_lexer_next(p);
        if (r == 0)
            r = parse_list(p, target, field);
    } else {
        r = parse_value(p, target, field);
    }
    if (r < 0)
        return r;
    if (!accept(p, ',', &r))
        accept(p, ';', &r);
    return r;
}

static int check_required(struct pbtext_lexer *p, const struct target *target, const char *at)
{
    for (unsigned i = 0; i < target->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &target->descriptor->fields[i];
        if (field->label == PROTOBUF_C_LABEL_REQUIRED && !target->seen[i])
            return pbtext_lexer_error(p, -EINVAL, at, "%s needs \"%s\"",
                                      short_name(target->descriptor->name), field->name);
    }
    return 0;
}

// Reads fields up to and including `closer`, or to the end of the text if `closer` is 0.
static int parse_fields(struct pbtext_lexer *p, struct target *target, char closer,
                        const char *opened)
{
    CLEANUP(freep) const char **seen = calloc(target->descriptor->n_fields + 1, sizeof(*seen));
    if (!seen)
        return out_of_memory(p);
    target->seen = seen;
    int r = 0;
    for (;;) {
        const struct pbtext_token *token = &p->token;
        if (closer && pbtext_token_is(token, closer)) {
            r = check_required(p, target, token->start);
            return r < 0 ? r : pbtext_lexer_next(p);
        }
        if (token->type == PBTEXT_END) {
            if (!closer)
                return check_required(p, target, token->start);
            return pbtext_lexer_error(p, -EINVAL, opened, "this \"%c\" is never closed", *opened);
        }
        r = parse_field(p, target);
        if (r < 0)
            return r;
    }
}

int pbtext_parse(const ProtobufCMessageDescriptor *descriptor, const char *name, const char *text,
                 size_t size, ProtobufCMessage **ret, struct err *err)
{
    struct pbtext_lexer lexer;
    int r = pbtext_lexer_start(&lexer, name, size ? text : "", size, err);
    if (r < 0)
        return r;
    struct target target = {.descriptor = descriptor, .message = message_new(descriptor)};
    if (!target.message)
        return out_of_memory(&lexer);
    r = parse_fields(&lexer, &target, '\0', lexer.pos);
    if (r < 0)
        protobuf_c_message_free_unpacked(target.message, NULL);
    else
        *ret = target.message;
    return r;
}
