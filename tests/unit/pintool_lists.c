// SPDX-License-Identifier: Apache-2.0
//
// pintool's code for lists, without a real zip: the origin of lists, lists inside zips, pinconfigs
// that pintool writes, and stale pinconfigs.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "common/cleanup.h"
#include "common/elements.h"
#include "producer/pintool/embedded_list.h"
#include "producer/pintool/emit_pinconfig.h"
#include "producer/pintool/list_source.h"
#include "producer/pintool/stale.h"
#include "tests/unit/unit.h"

#define ADD(index, ...)                                                                            \
    assert_int_equal(                                                                              \
        zipindex_entries_push(&(index)->entries, (struct zipindex_entry){__VA_ARGS__}), 0)

static struct pinlist list_of(uint32_t offset, uint32_t length)
{
    struct pinlist list = {0};
    assert_int_equal(pinlist_push(&list, (struct pinlist_range){offset, length}), 0);
    return list;
}

static void make_index(struct zipindex *index)
{
    *index = (struct zipindex){0};
    ADD(index, .name = "first", .offset = 100, .size_bytes = 1000, .crc32 = 1);
    ADD(index, .name = "lib/b.so", .offset = 4200, .size_bytes = 8000, .crc32 = 2);
    ADD(index, .name = "META-INF/CERT.RSA", .offset = 12300, .size_bytes = 20, .crc32 = 3);
    ADD(index, .name = "empty/", .offset = 12400);
    ADD(index, .name = "new\nline", .offset = 12500, .size_bytes = 20, .crc32 = 4);
    ADD(index, .name = "last one", .offset = 16384, .size_bytes = 4096, .crc32 = 5);
}

static void sources_come_back(void **state)
{
    (void)state;
    CLEANUP(zipindex_done) struct zipindex index = {0};
    CLEANUP(pinlist_done) struct pinlist list = list_of(8192, 12288);
    CLEANUP(list_source_done) struct list_source made = {0};
    CLEANUP(list_source_done) struct list_source read = {0};
    CLEANUP(strbuf_done) struct strbuf bytes = {0};
    CLEANUP(strbuf_done) struct strbuf text = {0};
    make_index(&index);
    pinlist_encode(&list, &bytes);
    assert_int_equal(list_source_make(&list, &index, "/data/app/a b.apk", 99999, &made), 0);
    list_source_encode(&made, &bytes, &text);
    assert_non_null(strstr(text.text,
                           "\nzip size=99999 name=a b.apk\n"
                           "entry offset=4200 size=8000 crc32=00000002 name=lib/b.so\n"
                           "entry offset=16384 size=4096 crc32=00000005 name=last one\n"));
    assert_int_equal(list_source_parse(text.text, text.size, &bytes, &read), 0);
    assert_true(read.known);
    assert_int_equal(read.zip_bytes, 99999);
    assert_string_equal(read.zip_name, "a b.apk");
    assert_int_equal(read.entries.n, 2);
    struct list_source_change change;
    assert_int_equal(list_source_compare(&read, &index, &change), 0);
    assert_int_equal(change.n_changed, 0);
    assert_int_equal(change.n_entries, 2);
}

static void sources_of_other_lists_say_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "pinlist-source 1\n",
        "pinlist-source 2\nlist crc32=00000000\nzip size=1 name=a\n",
        "pinlist-source 1\nlist crc32=00000001\nzip size=1 name=a\n",
        "pinlist-source 1\nlist crc32=100000000\nzip size=1 name=a\n",
        "pinlist-source 1\nlist crc32=00000000\n",
        "pinlist-source 1\nlist crc32=00000000\nzip size=1 name=a",
        "pinlist-source 1\nlist crc32=00000000\nzip size= 1 name=a\n",
        "pinlist-source 1\nlist crc32=00000000\nzip size=99999999999999999999999 name=a\n",
        "pinlist-source 1\nlist crc32=00000000\nzip size=1 name=a\nentry offset=1 size=2 name=b\n",
        "pinlist-source 1\nlist crc32=0\nzip size=1 name=\nentry offset=1 size=2 crc32=3 name=\n",
    };
    struct strbuf empty = {0};
    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        struct list_source source;
        assert_int_equal(list_source_parse(texts[i], strlen(texts[i]), &empty, &source), 0);
        assert_false(source.known);
        assert_null(source.names.blocks);
    }
    CLEANUP(list_source_done) struct list_source good = {0};
    static const char text[] =
        "pinlist-source 1\nlist crc32=00000000\nzip size=1 name=\nlater word\n";
    assert_int_equal(list_source_parse(text, sizeof(text) - 1, &empty, &good), 0);
    assert_true(good.known);
}

static void changes_are_found(void **state)
{
    (void)state;
    CLEANUP(zipindex_done) struct zipindex index = {0};
    CLEANUP(pinlist_done) struct pinlist list = list_of(0, 1 << 20);
    CLEANUP(list_source_done) struct list_source source = {0};
    struct list_source_change change;
    struct err err = {0};
    make_index(&index);
    assert_int_equal(list_source_make(&list, &index, "a.apk", 1, &source), 0);
    assert_int_equal(source.entries.n, 3);
    assert_int_equal(list_source_check(&source, &index, "l", "a", 0, &err), 0);
    assert_int_equal(list_source_check(&source, &index, "l", "a", 5, &err), 1);
    assert_string_equal(err.text, "l names 5 bytes beyond the end of a");
    // A second entry with the name, in another place, does no harm.
    ADD(&index, .name = "first", .offset = 30000, .size_bytes = 1, .crc32 = 1);
    assert_int_equal(list_source_check(&source, &index, "l", "a", 0, &err), 0);
    index.entries.items[0].crc32 = 9;
    index.entries.items[5].offset++;
    assert_int_equal(list_source_compare(&source, &index, &change), 0);
    assert_int_equal(change.n_changed, 2);
    assert_int_equal(list_source_check(&source, &index, "l", "a", 5, &err), 1);
    assert_non_null(strstr(err.text, "l was made of another build of a: first "));
    assert_string_equal(err.hint, "2 of 3 entries differ");
}

// Reads from a source that consists of the data of one entry. `userdata`: a strbuf.
static int bytes_read(void *userdata, uint64_t offset, void *ret, size_t size)
{
    const struct strbuf *bytes = userdata;
    assert_true(offset + size <= bytes->size);
    memcpy(ret, bytes->text + offset, size);
    return 0;
}

static int unpack(struct strbuf *data, unsigned method, uint64_t size, uint32_t crc, size_t max,
                  struct strbuf *ret)
{
    CLEANUP(zipindex_done) struct zipindex index = {0};
    struct zipindex_source source = {data->size, bytes_read, data};
    struct err err = {0};
    ADD(&index, .name = "other", .size_bytes = 1);
    ADD(&index, .name = EMBEDDED_LIST_NAME, .size_bytes = data->size, .uncompressed_bytes = size,
        .method = method, .crc32 = crc);
    strbuf_clear(ret);
    int r = embedded_list_read(&source, &index, "a.apk", max, ret, &err);
    assert_true((r < 0) == (err.text[0] != '\0'));
    return r;
}

static void deflate_into(struct strbuf *data, const uint8_t *bytes, size_t size)
{
    z_stream z = {0};
    uint8_t out[4096];
    strbuf_clear(data);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)size;
    int code;
    do {
        z.next_out = out;
        z.avail_out = sizeof(out);
        code = deflate(&z, Z_FINISH);
        strbuf_add(data, out, sizeof(out) - z.avail_out);
    } while (code == Z_OK);
    assert_int_equal(code, Z_STREAM_END);
    deflateEnd(&z);
}

static void lists_inside_are_whole_or_refused(void **state)
{
    (void)state;
    CLEANUP(strbuf_done) struct strbuf data = {0};
    CLEANUP(strbuf_done) struct strbuf got = {0};
    static uint8_t bytes[40000];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * i >> 7);
    uint32_t crc = (uint32_t)crc32(0, bytes, sizeof(bytes));
    size_t max = 1 << 20;
    strbuf_add(&data, bytes, sizeof(bytes));
    assert_int_equal(unpack(&data, 0, sizeof(bytes), crc, max, &got), 0);
    assert_memory_equal(got.text, bytes, sizeof(bytes));
    assert_int_equal(unpack(&data, 0, sizeof(bytes), crc + 1, max, &got), -EBADMSG);
    assert_int_equal(unpack(&data, 0, sizeof(bytes) - 1, crc, max, &got), -EBADMSG);
    assert_int_equal(unpack(&data, 0, sizeof(bytes) + 1, crc, max, &got), -EBADMSG);
    assert_int_equal(unpack(&data, 0, sizeof(bytes), crc, sizeof(bytes) - 1, &got), -EFBIG);
    assert_int_equal(unpack(&data, 12, sizeof(bytes), crc, max, &got), -ENOTSUP);
    deflate_into(&data, bytes, sizeof(bytes));
    assert_int_equal(unpack(&data, 8, sizeof(bytes), crc, max, &got), 0);
    assert_int_equal(got.size, sizeof(bytes));
    assert_memory_equal(got.text, bytes, sizeof(bytes));
    for (int by = -1; by <= 1; by += 2)
        assert_int_equal(unpack(&data, 8, sizeof(bytes) + (size_t)by, crc, max, &got), -EBADMSG);
    strbuf_add_char(&data, 0);
    assert_int_equal(unpack(&data, 8, sizeof(bytes), crc, max, &got), -EBADMSG);
    data.size -= 2;
    assert_int_equal(unpack(&data, 8, sizeof(bytes), crc, max, &got), -EBADMSG);
    data.size = 0;
    assert_int_equal(unpack(&data, 0, 0, 0, max, &got), 0);
    assert_int_equal(unpack(&data, 8, 0, 0, max, &got), -EBADMSG);
}

// Adds the parts that a pinconfig picks of each entry of a zip to `ret`.
static void pick(const struct zipindex *zip, const char *text, size_t size, struct coverages *ret)
{
    struct pinconfig config = {0};
    CLEANUP(page_ranges_done) struct page_ranges wanted = {0};
    struct err err = {0};
    assert_int_equal(pinconfig_parse(text, size, "emitted", &config, &err), 0);
    vec_foreach(&zip->entries, entry) {
        struct part part = {
            .name = entry->name, .offset = entry->offset, .size_bytes = entry->size_bytes};
        const struct pinconfig_file *file = pinconfig_match(&config, entry->name);
        page_ranges_clear(&wanted);
        if (file)
            assert_int_equal(
                pinconfig_select(&config, file, entry->offset, entry->size_bytes, &wanted), 0);
        assert_int_equal(coverages_add_wanted(ret, &part, &wanted, NULL), 0);
    }
    pinconfig_done(&config);
}

static uint32_t draw(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525 + 1013904223;
    return (*state >> 8) % n;
}

// Makes entries with short names of few letters, so that many names contain others.
static void make_names(struct zipindex *zip, uint32_t *seed)
{
    uint64_t offset = 30;
    *zip = (struct zipindex){0};
    for (int i = 0; i < 40; i++) {
        char name[8];
        size_t n = 1 + draw(seed, 6);
        for (size_t k = 0; k < n; k++)
            name[k] = "ab/ #\t"[draw(seed, 6)];
        name[n] = '\0';
        bool again = false;
        vec_foreach(&zip->entries, entry)
            again |= str_eq(entry->name, name);
        if (again)
            continue;
        uint64_t size = draw(seed, 5000);
        ADD(zip, .name = arena_strndup(&zip->names, name, n), .offset = offset, .size_bytes = size);
        offset += size + 30;
    }
}

static void emitted_pinconfigs_pick_the_same(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int round = 0; round < 300; round++) {
        CLEANUP(zipindex_done) struct zipindex zip = {0};
        CLEANUP(page_ranges_done) struct page_ranges set = {0};
        CLEANUP(coverages_done) struct coverages had = {0};
        CLEANUP(coverages_done) struct coverages got = {0};
        CLEANUP(strbuf_done) struct strbuf text = {0};
        struct err err = {0};
        char first[128];
        size_t n_left_out;
        make_names(&zip, &seed);
        for (uint64_t at = 0; at < 200000; at += 4096)
            if (draw(&seed, 3) == 0)
                assert_int_equal(page_ranges_append(&set, at, at + 4096), 0);
        vec_foreach(&zip.entries, entry) {
            struct part part = {
                .name = entry->name, .offset = entry->offset, .size_bytes = entry->size_bytes};
            assert_int_equal(coverages_add(&had, &part, &set), 0);
        }
        assert_int_equal(emit_pinconfig(&zip, &had, "a.zip", &text, &n_left_out, &first, &err), 0);
        assert_int_equal(n_left_out, 0);
        pick(&zip, text.text, text.size, &got);
        assert_int_equal(got.items.n, had.items.n);
        for (size_t i = 0; i < had.items.n; i++) {
            const struct coverage *a = &had.items.items[i], *b = &got.items.items[i];
            assert_int_equal(a->n_ranges, b->n_ranges);
            if (a->n_ranges)
                assert_memory_equal(coverage_ranges(&had, a), coverage_ranges(&got, b),
                                    a->n_ranges * sizeof(struct page_range));
        }
    }
}

static void names_that_cannot_be_said_are_counted(void **state)
{
    (void)state;
    CLEANUP(zipindex_done) struct zipindex zip = {0};
    CLEANUP(coverages_done) struct coverages had = {0};
    CLEANUP(strbuf_done) struct strbuf text = {0};
    struct err err = {0};
    static const char *const names[] = {"a\nb", "a \"b\"", "x", "y\nx", "x", "\"x y"};
    char first[128];
    size_t n_left_out;
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        struct part part = {.name = names[i], .offset = 100 * i, .size_bytes = 50};
        ADD(&zip, .name = names[i], .offset = part.offset, .size_bytes = 50);
        struct page_ranges nothing = {0};
        assert_int_equal(coverages_add(&had, &part, i == 3 || i == 5 ? &nothing : NULL), 0);
    }
    // Five names are left out: two have newlines, two have quotes and blanks, and x is there twice.
    assert_int_equal(emit_pinconfig(&zip, &had, "a.zip", &text, &n_left_out, &first, &err), 0);
    assert_int_equal(n_left_out, 5);
    assert_string_equal(first, "a?b");
    assert_string_equal(text.text, "file x\n");
    coverages_clear(&had);
    assert_int_equal(emit_pinconfig(&zip, &had, "a.zip", &text, &n_left_out, &first, &err),
                     -ENODATA);
}

static void stale_parts_are_reported(void **state)
{
    (void)state;
    CLEANUP(zipindex_done) struct zipindex zip = {0};
    CLEANUP(stale_done) struct stale stale = {0};
    struct pinconfig config = {0};
    struct err err = {0};
    char *text = NULL;
    size_t size = 0;
    static const char pins[] = "file gone\noffset 0 len 5\nfile so\noffset 0 len 200\n"
                               "offset 150 len 100\noffset 200 len 1\nfile a.so\noffset 0 len 0\n";
    assert_int_equal(pinconfig_parse(pins, sizeof(pins) - 1, "pins", &config, &err), 0);
    ADD(&zip, .name = "a.so", .size_bytes = 100);
    ADD(&zip, .name = "b.so", .size_bytes = 200);
    assert_int_equal(stale_note(&stale, &config, &zip, "z.apk"), 0);
    FILE *out = open_memstream(&text, &size);
    stale_print(&stale, &config, "pins", "p", out);
    fclose(out);
    assert_string_equal(
        text,
        "p: pins:1: \"gone\" matches no entry of z.apk\n"
        "p: pins:5: the range at offset 150 with 100 bytes is cut at the end of the entry: "
        "b.so has 200 bytes\n"
        "p: pins:6: the range at offset 200 with 1 bytes lies beyond the entry: b.so has 200 "
        "bytes\n"
        "p: pins:7: \"a.so\" gets no entry of z.apk: patterns above it match the same names\n");
    free(text);
    pinconfig_done(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_come_back),
        cmocka_unit_test(sources_of_other_lists_say_nothing),
        cmocka_unit_test(changes_are_found),
        cmocka_unit_test(lists_inside_are_whole_or_refused),
        cmocka_unit_test(emitted_pinconfigs_pick_the_same),
        cmocka_unit_test(names_that_cannot_be_said_are_counted),
        cmocka_unit_test(stale_parts_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
