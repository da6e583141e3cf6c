// SPDX-License-Identifier: Apache-2.0
//
// The parsers accept only a whole text: "10x" is an error, not ten. The parsers read digits
// themselves, because strtoull() accepts signs, leading blanks and a second 0x.
#include "common/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "common/memory.h"
#include "common/text.h"

static bool strbuf_reserve(struct strbuf *buf, size_t more)
{
    if (buf->failed)
        return false;
    if (more >= SIZE_MAX / 4 - buf->size) {
        buf->failed = true;
        return false;
    }
    size_t needed = buf->size + more + 1;
    if (needed <= buf->capacity)
        return true;
    size_t capacity = buf->capacity ? buf->capacity * 2 : 64;
    if (capacity < needed)
        capacity = needed;
    char *grown = realloc(buf->text, capacity);
    if (!grown) {
        memory_refused();
        buf->failed = true;
        return false;
    }
    buf->text = grown;
    buf->capacity = capacity;
    return true;
}

void strbuf_add(struct strbuf *buf, const void *bytes, size_t size)
{
    if (!strbuf_reserve(buf, size))
        return;
    if (size)
        memcpy(buf->text + buf->size, bytes, size);
    buf->size += size;
    buf->text[buf->size] = '\0';
}

void strbuf_add_str(struct strbuf *buf, const char *text)
{
    strbuf_add(buf, text, strlen(text));
}

void strbuf_add_char(struct strbuf *buf, char c)
{
    strbuf_add(buf, &c, 1);
}

void strbuf_addf(struct strbuf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int needed = vsnprintf(NULL, 0, format, args);
    if (needed >= 0 && strbuf_reserve(buf, (size_t)needed)) {
        vsnprintf(buf->text + buf->size, (size_t)needed + 1, format, again);
        buf->size += (size_t)needed;
    }
    va_end(again);
    va_end(args);
}

void strbuf_clear(struct strbuf *buf)
{
    buf->size = 0;
    if (buf->text)
        buf->text[0] = '\0';
}

void strbuf_done(struct strbuf *buf)
{
    int saved = errno;
    free(buf->text);
    *buf = (struct strbuf){0};
    errno = saved;
}

char *strbuf_steal(struct strbuf *buf)
{
    strbuf_add(buf, "", 0);
    char *text = buf->failed ? NULL : buf->text;
    if (!text)
        free(buf->text);
    *buf = (struct strbuf){0};
    return text;
}

bool str_ends_with(const char *text, const char *suffix)
{
    size_t text_size = strlen(text), suffix_size = strlen(suffix);
    return text_size >= suffix_size && str_eq(text + text_size - suffix_size, suffix);
}

int str_parse_u64(const char *text, uint64_t *ret)
{
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *p = hex ? text + 2 : text;
    uint64_t value = 0;
    bool overflow = false;
    if (!*p)
        return -EINVAL;
    for (; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (hex ? !isxdigit(c) : !isdigit(c))
            return -EINVAL;
        uint64_t digit = isdigit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
        overflow |= __builtin_mul_overflow(value, (uint64_t)(hex ? 16 : 10), &value);
        overflow |= __builtin_add_overflow(value, digit, &value);
    }
    if (overflow)
        return -ERANGE;
    *ret = value;
    return 0;
}

int str_parse_u32(const char *text, uint32_t *ret)
{
    uint64_t value;
    int r = str_parse_u64(text, &value);
    if (r < 0)
        return r;
    if (value > UINT32_MAX)
        return -ERANGE;
    *ret = (uint32_t)value;
    return 0;
}

int str_parse_i64(const char *text, int64_t *ret)
{
    bool negative = text[0] == '-';
    uint64_t magnitude;
    int r = str_parse_u64(text + negative, &magnitude);
    if (r < 0)
        return r;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return -ERANGE;
    *ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return 0;
}

bool str_scan_u64(const char **cursor, const char *end, uint64_t *ret)
{
    const char *p = *cursor;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    if (p == end || !is_digit(*p))
        return false;
    uint64_t value = 0;
    for (; p < end && is_digit(*p); p++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return false;
    }
    *cursor = p;
    *ret = value;
    return true;
}

bool str_scan_hex(const char **cursor, const char *end, uint64_t *ret)
{
    const char *p = *cursor;
    uint64_t value = 0;
    for (; p < end; p++) {
        unsigned digit;
        if (is_digit(*p))
            digit = (unsigned)(*p - '0');
        else if (*p >= 'a' && *p <= 'f')
            digit = (unsigned)(*p - 'a') + 10;
        else
            break;
        if (value >> 60)
            return false;
        value = value << 4 | digit;
    }
    if (p == *cursor)
        return false;
    *cursor = p;
    *ret = value;
    return true;
}

struct unit {
    const char *name;
    uint64_t factor;
};

// Returns the value of the digits after a decimal point, times `factor`, rounded down.
static uint64_t fraction_of(const char *digits, uint64_t factor)
{
    double scale = (double)factor, sum = 0;
    for (; is_digit(*digits); digits++)
        sum += (*digits - '0') * (scale /= 10);
    return (uint64_t)(sum + 1e-3);
}

// Parses a number, with or without decimals, directly followed by one of `units`. The last unit has
// the name NULL.
static int parse_with_unit(const char *text, const struct unit *units, uint64_t *ret)
{
    const char *p = text;
    uint64_t value;
    if (!is_digit(*p))
        return -EINVAL;
    if (!str_scan_u64(&p, text + strlen(text), &value))
        return -ERANGE;
    const char *fraction = *p == '.' && is_digit(p[1]) ? p + 1 : NULL;
    const char *unit = fraction ? fraction + strspn(fraction, "0123456789") : p;
    for (; units->name; units++) {
        if (strcasecmp(unit, units->name) != 0)
            continue;
        uint64_t below = fraction ? fraction_of(fraction, units->factor) : 0;
        if (__builtin_mul_overflow(value, units->factor, &value) ||
            __builtin_add_overflow(value, below, &value))
            return -ERANGE;
        *ret = value;
        return 0;
    }
    return -EINVAL;
}

int str_parse_duration(const char *text, nsec_t *ret)
{
    static const struct unit units[] = {
        {"", 1000000000},      {"ns", 1},          {"us", 1000},         {"ms", 1000000},
        {"s", 1000000000},     {"m", 60000000000}, {"min", 60000000000}, {"h", 3600000000000},
        {"d", 86400000000000}, {NULL, 0},
    };
    uint64_t value;
    int r = parse_with_unit(text, units, &value);
    if (r < 0)
        return r;
    if (value > INT64_MAX)
        return -ERANGE;
    *ret = (nsec_t)value;
    return 0;
}

int str_parse_size(const char *text, uint64_t *ret)
{
    static const struct unit units[] = {
        {"", 1},          {"b", 1},        {"k", 1 << 10},   {"kb", 1 << 10},
        {"kib", 1 << 10}, {"m", 1 << 20},  {"mb", 1 << 20},  {"mib", 1 << 20},
        {"g", 1 << 30},   {"gb", 1 << 30}, {"gib", 1 << 30}, {NULL, 0},
    };
    return parse_with_unit(text, units, ret);
}

size_t str_utf8_decode(const char *text, const char *end, uint32_t *ret)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (text >= end)
        return 0;
    unsigned char first = (unsigned char)*text;
    size_t size = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (!size || first >= 0xf8 || (size_t)(end - text) < size)
        return 0;
    uint32_t code_point = size == 1 ? first : first & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        if ((byte & 0xc0) != 0x80)
            return 0;
        code_point = code_point << 6 | (byte & 0x3f);
    }
    bool surrogate = code_point >= 0xd800 && code_point < 0xe000;
    if (code_point < smallest[size] || code_point > 0x10ffff || surrogate)
        return 0;
    if (ret)
        *ret = code_point;
    return size;
}

size_t str_character(const char *text, const char *end, bool *ret_printable)
{
    uint32_t c = 0;
    size_t size = str_utf8_decode(text, end, &c);
    *ret_printable = size && (c == '\t' || (c >= 0x20 && c < 0x7f) || c >= 0xa0);
    return size ? size : 1;
}

const char *str_printable(char *ret, size_t ret_size, const char *text, size_t size)
{
    const char *end = text + size;
    size_t n = 0, limit = size < ret_size ? ret_size - 1 : ret_size - 4;
    while (text < end) {
        bool printable;
        size_t length = str_character(text, end, &printable);
        if (n + length > limit)
            break;
        if (printable)
            memcpy(ret + n, text, length);
        else
            ret[n] = '?';
        n += printable ? length : 1;
        text += length;
    }
    memcpy(ret + n, text < end ? "..." : "", text < end ? 4 : 1);
    return ret;
}

void str_make_printable(char *text, bool keep_newlines)
{
    const char *end = text + strlen(text);
    char *to = text;
    for (const char *from = text; from < end;) {
        bool printable;
        size_t length = str_character(from, end, &printable);
        if (printable || (keep_newlines && *from == '\n')) {
            memmove(to, from, length);
            to += length;
        } else {
            *to++ = '?';
        }
        from += length;
    }
    *to = '\0';
}

void strbuf_add_utf8(struct strbuf *buf, uint32_t c)
{
    char bytes[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        bytes[i] = (char)(0x80 | (c & 0x3f));
    bytes[0] = (char)(n == 1 ? c : (0xf00u >> n) | c);
    strbuf_add(buf, bytes, n);
}

#define NEAREST_MAX 64

static size_t edit_distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t row[NEAREST_MAX + 1];
    for (size_t j = 0; j <= b_size; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            size_t replace = diagonal + (a[i - 1] != b[j - 1]);
            size_t best = row[j - 1] < row[j] ? row[j - 1] + 1 : row[j] + 1;
            diagonal = row[j];
            row[j] = replace < best ? replace : best;
        }
    }
    return row[b_size];
}

char *str_lower(const char *text)
{
    char *copy = strdup(text);
    for (char *at = copy; at && *at; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    return copy;
}

const char *str_nearest(const char *text, const char *const *candidates, size_t n)
{
    size_t size = strlen(text);
    if (!size || size > NEAREST_MAX)
        return NULL;
    const char *best = NULL;
    size_t best_distance = size / 3 + 2;
    for (size_t i = 0; i < n; i++) {
        size_t candidate_size = strlen(candidates[i]);
        if (candidate_size > NEAREST_MAX)
            continue;
        size_t distance = edit_distance(text, size, candidates[i], candidate_size);
        if (distance < best_distance) {
            best_distance = distance;
            best = candidates[i];
        }
    }
    return best;
}
