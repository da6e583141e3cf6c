// SPDX-License-Identifier: Apache-2.0
//
// All numbers are in the byte order of the recording machine; only little-endian files are read. A
// struct perf_event_attr of the file may be shorter or longer than the struct of this build.
#include "converter/translate/perf_file.h"

#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"

#define HEADER_SIZE     104
#define STREAM_SIZE     16 // of the header of a stream
#define EVENTS_MAX      65536
#define IDS_MAX         (1u << 22)
#define BUILD_IDS_MAX   (1u << 20)
#define CMDLINE_MAX     ((size_t)1 << 20)
#define ANY_PID         UINT32_MAX
#define BUILD_ID_MAX    20
#define FLAG_BUILD_SIZE (1u << 15) // in misc: the build id has a size
#define N_FEATURES      256
#define COMPARED_MAX    (UINT64_C(1) << 25) // events, with names of simpleperf
#define PATH_KEY_MAX    4096

enum {
    FEATURE_BUILD_ID = 2,
    FEATURE_OS_RELEASE = 4,
    FEATURE_CMDLINE = 11,
    FEATURE_EVENT_DESC = 12,
    FEATURE_GROUP_DESC = 17,
    FEATURE_SIMPLEPERF_META_INFO = 129,
    FEATURE_SIMPLEPERF_FILE2 = 132,
};

struct section {
    uint64_t offset, size;
};

void perf_bytes_take(struct perf_bytes *bytes, void *ret, size_t size)
{
    memset(ret, 0, size);
    if (perf_bytes_left(bytes) < size) {
        bytes->failed = true;
        bytes->at = bytes->end;
        return;
    }
    memcpy(ret, bytes->at, size);
    bytes->at += size;
}

void perf_bytes_skip(struct perf_bytes *bytes, size_t size)
{
    bool fits = perf_bytes_left(bytes) >= size;
    bytes->failed |= !fits;
    bytes->at = fits ? bytes->at + size : bytes->end;
}

uint64_t perf_u64(struct perf_bytes *bytes)
{
    uint64_t value;
    perf_bytes_take(bytes, &value, sizeof(value));
    return value;
}

uint32_t perf_u32(struct perf_bytes *bytes)
{
    uint32_t value;
    perf_bytes_take(bytes, &value, sizeof(value));
    return value;
}

struct text perf_text_take(struct perf_bytes *bytes)
{
    size_t left = perf_bytes_left(bytes);
    const uint8_t *zero = left ? memchr(bytes->at, 0, left) : NULL;
    struct text text = {(const char *)bytes->at, zero ? (size_t)(zero - bytes->at) : left};
    bytes->at += text.size + (zero != NULL);
    return text;
}

// Reads a size, then a text that is padded with zeros.
static struct text sized_text_take(struct perf_bytes *bytes)
{
    uint32_t size = perf_u32(bytes);
    const uint8_t *start = bytes->at;
    perf_bytes_skip(bytes, size);
    if (bytes->failed)
        return (struct text){0};
    struct perf_bytes inner = {.at = start, .end = bytes->at};
    return perf_text_take(&inner);
}

static struct perf_bytes part_of(const struct perf_file *file, struct section section)
{
    uint64_t size = (uint64_t)(file->end - file->start);
    if (section.offset > size || section.size > size - section.offset)
        return (struct perf_bytes){.at = file->end, .end = file->end, .failed = true};
    const uint8_t *start = file->start + section.offset;
    return (struct perf_bytes){.at = start, .end = start + section.size};
}

static void damaged(struct perf_file *file, const char *what)
{
    if (!file->damage)
        file->damage = what;
}

void perf_event_add(struct perf_file *file, struct perf_bytes attr, struct perf_bytes ids)
{
    struct perf_event event = {0};
    size_t size = perf_bytes_left(&attr);
    if (file->events.n >= EVENTS_MAX || size < PERF_ATTR_SIZE_VER0) {
        damaged(file, "an event cannot be read");
        return;
    }
    memcpy(&event.attr, attr.at, size < sizeof(event.attr) ? size : sizeof(event.attr));
    file->failed |= perf_event_vec_push(&file->events, event) < 0;
    // The number of ids is limited, because many events may refer to the same bytes as their ids.
    for (; perf_bytes_left(&ids) >= sizeof(uint64_t) && file->n_ids_read < IDS_MAX && !file->failed;
         file->n_ids_read++) {
        bool is_new;
        file->failed |=
            !map64_get_or_add(&file->event_of_id, perf_u64(&ids), file->events.n - 1, &is_new);
    }
    if (perf_bytes_left(&ids) >= sizeof(uint64_t) && !file->failed)
        damaged(file, "its events have too many ids");
}

static void attrs_read(struct perf_file *file, struct section attrs, uint64_t attr_size)
{
    struct perf_bytes bytes = part_of(file, attrs);
    if (bytes.failed || attr_size < PERF_ATTR_SIZE_VER0 + sizeof(struct section)) {
        damaged(file, "the list of events cannot be read");
        return;
    }
    while (perf_bytes_left(&bytes) >= attr_size && !file->failed) {
        size_t size = (size_t)attr_size - sizeof(struct section);
        struct perf_bytes attr = {.at = bytes.at, .end = bytes.at + size};
        struct section ids;
        perf_bytes_skip(&bytes, size);
        perf_bytes_take(&bytes, &ids, sizeof(ids));
        struct perf_bytes list = part_of(file, ids);
        if (list.failed)
            damaged(file, "the ids of an event cannot be read");
        perf_event_add(file, attr, list);
    }
}

static void event_names_read(struct perf_file *file, struct perf_bytes bytes)
{
    uint32_t n = perf_u32(&bytes), attr_size = perf_u32(&bytes);
    for (; n && !bytes.failed; n--) {
        perf_bytes_skip(&bytes, attr_size);
        uint32_t n_ids = perf_u32(&bytes);
        struct text name = sized_text_take(&bytes);
        for (; n_ids && !bytes.failed; n_ids--) {
            const uint64_t *event = map64_find(&file->event_of_id, perf_u64(&bytes));
            if (event && !bytes.failed)
                file->events.items[*event].name = name;
        }
    }
    if (bytes.failed)
        damaged(file, "the names of its events cannot be read");
}

static void cmdline_read(struct perf_file *file, struct perf_bytes bytes)
{
    CLEANUP(strbuf_done) struct strbuf text = {0};
    uint32_t n = perf_u32(&bytes);
    for (uint32_t i = 0; i < n && !bytes.failed && text.size < CMDLINE_MAX; i++) {
        struct text word = sized_text_take(&bytes);
        size_t left = CMDLINE_MAX - text.size;
        if (i)
            strbuf_add_char(&text, ' ');
        strbuf_add(&text, word.at, word.size < left ? word.size : left);
    }
    free(file->cmdline);
    file->failed |= text.failed;
    file->cmdline = strbuf_steal(&text);
}

// Returns the size of a build id without a size, as old versions of perf and simpleperf write: 8,
// 16 or 20 bytes.
static uint8_t build_id_size(const uint8_t *id)
{
    size_t n = BUILD_ID_MAX;
    while (n && !id[n - 1])
        n--;
    return n > 16 ? 20 : n > 8 ? 16 : 8;
}

// Makes the key of a path for a process. Returns its size, or 0 if the path is too long.
static size_t build_key(char *key, uint32_t pid, struct text path)
{
    if (path.size > PATH_KEY_MAX)
        return 0;
    memcpy(key, &pid, sizeof(pid));
    if (path.size)
        memcpy(key + sizeof(pid), path.at, path.size);
    return sizeof(pid) + path.size;
}

static void build_id_add(struct perf_file *file, uint32_t pid, struct text path,
                         struct perf_build_id id)
{
    char key[sizeof(pid) + PATH_KEY_MAX];
    size_t size = build_key(key, pid, path), n = file->build_files.n;
    if (!size || n >= BUILD_IDS_MAX)
        return;
    file->failed |= strset_add(&file->build_files, key, size) == STRSET_NONE;
    if (file->build_files.n > n)
        file->failed |= perf_build_id_vec_push(&file->build_ids, id) < 0;
}

void perf_build_ids_read(struct perf_file *file, struct perf_bytes bytes)
{
    while (perf_bytes_left(&bytes) && !bytes.failed && !file->failed) {
        struct perf_event_header header;
        perf_bytes_take(&bytes, &header, sizeof(header));
        const uint8_t *start = bytes.at;
        if (bytes.failed || header.size < sizeof(header))
            break;
        perf_bytes_skip(&bytes, header.size - sizeof(header));
        struct perf_bytes entry = {.at = start, .end = bytes.at};
        struct perf_build_id id = {0};
        uint8_t told_size, reserved[3];
        uint32_t pid = perf_u32(&entry);
        perf_bytes_take(&entry, id.bytes, sizeof(id.bytes));
        perf_bytes_take(&entry, &told_size, sizeof(told_size));
        perf_bytes_take(&entry, reserved, sizeof(reserved));
        bool has_size = header.misc & FLAG_BUILD_SIZE;
        id.size = has_size ? told_size : build_id_size(id.bytes);
        bytes.failed |= entry.failed || id.size > BUILD_ID_MAX;
        if (!bytes.failed)
            build_id_add(file, pid, perf_text_take(&entry), id);
    }
    if (perf_bytes_left(&bytes) || bytes.failed)
        damaged(file, "the list of build ids cannot be read to its end");
}

const struct perf_build_id *perf_build_id_find(const struct perf_file *file, uint32_t pid,
                                               struct text path)
{
    const uint32_t pids[] = {pid, ANY_PID};
    char key[sizeof(pid) + PATH_KEY_MAX];
    for (size_t i = 0; i < 2; i++) {
        size_t size = build_key(key, pids[i], path);
        uint32_t id = size ? strset_find(&file->build_files, key, size) : STRSET_NONE;
        if (id != STRSET_NONE && id < file->build_ids.n)
            return &file->build_ids.items[id];
    }
    return NULL;
}

static void name_set(struct perf_file *file, uint64_t type, uint64_t config, struct text name)
{
    file->n_compared += file->events.n;
    vec_foreach(&file->events, event) {
        if (event->attr.type == type && event->attr.config == config)
            event->name = name;
    }
}

// Reads a line NAME,TYPE,CONFIG for each event. A zero byte ends the text.
static void simpleperf_names_read(struct perf_file *file, struct text lines)
{
    const char *at = lines.at, *end = lines.at + lines.size;
    char *rest;
    while (at < end && file->n_compared < COMPARED_MAX) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        const char *comma = memchr(at, ',', (size_t)(stop - at));
        const char *second = comma ? memchr(comma + 1, ',', (size_t)(stop - comma - 1)) : NULL;
        if (second)
            name_set(file, strtoull(comma + 1, &rest, 10), strtoull(second + 1, &rest, 10),
                     (struct text){at, (size_t)(comma - at)});
        at = stop + (newline != NULL);
    }
    if (at < end)
        damaged(file, "its events have too many names");
}

// Reads pairs of texts: a name and its value.
static void simpleperf_info_read(struct perf_file *file, struct perf_bytes bytes)
{
    file->is_simpleperf = true;
    if (perf_bytes_left(&bytes) && bytes.end[-1])
        return;
    while (perf_bytes_left(&bytes)) {
        struct text name = perf_text_take(&bytes), value = perf_text_take(&bytes);
        if (text_eq(name, TEXT("event_type_info")))
            simpleperf_names_read(file, value);
    }
}

void perf_feature_read(struct perf_file *file, unsigned feature, struct perf_bytes bytes)
{
    switch (feature) {
    case FEATURE_BUILD_ID:
        perf_build_ids_read(file, bytes);
        break;
    case FEATURE_OS_RELEASE:
        file->os_release = sized_text_take(&bytes);
        break;
    case FEATURE_CMDLINE:
        cmdline_read(file, bytes);
        break;
    case FEATURE_EVENT_DESC:
        event_names_read(file, bytes);
        break;
    case FEATURE_GROUP_DESC:
        break;
    case FEATURE_SIMPLEPERF_META_INFO:
        simpleperf_info_read(file, bytes);
        break;
    case FEATURE_SIMPLEPERF_FILE2:
        file->is_simpleperf = true;
        file->symbol_files = bytes;
        break;
    default:
        if (feature < N_FEATURES)
            file->skipped[feature] = 1;
        break;
    }
}

static void features_read(struct perf_file *file, struct section data, const uint64_t flags[4])
{
    struct section list = {data.offset + data.size, 0};
    for (unsigned i = 0; i < N_FEATURES; i++)
        list.size += flags[i / 64] >> i % 64 & 1 ? sizeof(struct section) : 0;
    struct perf_bytes headers = part_of(file, list);
    if (headers.failed) {
        damaged(file, "the file ends before its features");
        return;
    }
    for (unsigned i = 0; i < N_FEATURES && !file->failed; i++) {
        struct section section;
        if (!(flags[i / 64] >> i % 64 & 1))
            continue;
        perf_bytes_take(&headers, &section, sizeof(section));
        struct perf_bytes bytes = part_of(file, section);
        if (bytes.failed)
            damaged(file, "the file ends in its features");
        else
            perf_feature_read(file, i, bytes);
    }
}

void perf_file_read(struct perf_file *file, const uint8_t *bytes, size_t size)
{
    *file = (struct perf_file){.start = bytes, .end = bytes + size};
    struct perf_bytes head = {.at = bytes, .end = bytes + size};
    struct section attrs, data, types;
    uint64_t flags[4];
    perf_bytes_skip(&head, 8);
    uint64_t header_size = perf_u64(&head);
    file->data = file->data_end = file->end;
    if (header_size == STREAM_SIZE && !head.failed) {
        file->is_stream = true;
        file->data = head.at;
        return;
    }
    uint64_t attr_size = perf_u64(&head);
    perf_bytes_take(&head, &attrs, sizeof(attrs));
    perf_bytes_take(&head, &data, sizeof(data));
    perf_bytes_take(&head, &types, sizeof(types));
    perf_bytes_take(&head, flags, sizeof(flags));
    if (head.failed || header_size < HEADER_SIZE) {
        damaged(file, "the file ends in its header");
        return;
    }
    attrs_read(file, attrs, attr_size);
    if (data.offset > size) {
        damaged(file, "the file ends before its records");
        return;
    }
    file->data = bytes + data.offset;
    if (!data.size) { // the recorder died before it wrote the size
        file->data_end = file->end;
        damaged(file, "the recorder did not finish the file");
        return;
    }
    file->is_cut = data.size > size - data.offset;
    file->data_end = file->is_cut ? file->end : file->data + data.size;
    if (file->is_cut)
        damaged(file, "the file ends in its records");
    else
        features_read(file, data, flags);
}

void perf_file_done(struct perf_file *file)
{
    perf_event_vec_done(&file->events);
    map64_done(&file->event_of_id);
    strset_done(&file->build_files);
    perf_build_id_vec_done(&file->build_ids);
    free(file->cmdline);
}
