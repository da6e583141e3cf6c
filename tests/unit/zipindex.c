// SPDX-License-Identifier: Apache-2.0
//
// Zips made by hand, byte for byte, so that each can be wrong in one place.
#include "common/zipindex.h"

#include <errno.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/str.h"
#include "tests/unit/unit.h"

#define LOCAL_HEADER_BYTES 30
#define ANY_CRC            0x12345678
#define MAX_FILES          8

// The parts of a zip; the values in `lie` go into the directory only.
struct file {
    const char *name;
    const char *data;
    unsigned method;
    unsigned extra_bytes; // of the local header only, as alignment makes them
    bool zip64;
    bool has_lie;
    uint32_t lie_offset; // of the local header
    uint32_t lie_size;   // of the data
};

struct zip {
    struct strbuf bytes;
    uint64_t data_offsets[MAX_FILES];
    int fail_read; // the error that the source returns
};

static void put(struct strbuf *out, uint64_t value, unsigned n_bytes)
{
    for (unsigned i = 0; i < n_bytes; i++)
        strbuf_add_char(out, (char)(value >> 8 * i));
}

static void put_common(struct strbuf *out, const struct file *file, uint32_t size)
{
    put(out, file->zip64 ? 45 : 20, 2);
    put(out, 0, 2); // flags
    put(out, file->method, 2);
    put(out, 0, 4); // time
    put(out, ANY_CRC, 4);
    put(out, file->zip64 ? UINT32_MAX : size, 4);
    put(out, file->zip64 ? UINT32_MAX : size, 4);
    put(out, strlen(file->name), 2);
}

static void put_zip64_sizes(struct strbuf *out, uint32_t size)
{
    put(out, 1, 2);
    put(out, 16, 2);
    put(out, size, 8);
    put(out, size, 8);
}

static void put_local(struct strbuf *out, const struct file *file)
{
    uint32_t size = (uint32_t)strlen(file->data);
    put(out, 0x04034b50, 4);
    put_common(out, file, size);
    put(out, file->extra_bytes + (file->zip64 ? 20 : 0), 2);
    strbuf_add_str(out, file->name);
    if (file->zip64)
        put_zip64_sizes(out, size);
    for (unsigned i = 0; i < file->extra_bytes; i++)
        strbuf_add_char(out, 0);
}

static void put_central(struct strbuf *out, const struct file *file, uint32_t offset)
{
    uint32_t size = file->has_lie ? file->lie_size : (uint32_t)strlen(file->data);
    put(out, 0x02014b50, 4);
    put(out, 20, 2); // made by
    put_common(out, file, size);
    put(out, file->zip64 ? 20 : 0, 2);
    put(out, 0, 2); // comment
    put(out, 0, 2); // disk
    put(out, 0, 2); // internal attributes
    put(out, 0, 4); // external attributes
    put(out, file->has_lie ? file->lie_offset : offset, 4);
    strbuf_add_str(out, file->name);
    if (file->zip64)
        put_zip64_sizes(out, size);
}

static void zip_make(struct zip *zip, const char *prefix, size_t n, const struct file *files,
                     unsigned claimed)
{
    uint32_t offsets[MAX_FILES];
    *zip = (struct zip){0};
    strbuf_add_str(&zip->bytes, prefix);
    size_t base = zip->bytes.size;
    for (size_t i = 0; i < n; i++) {
        offsets[i] = (uint32_t)(zip->bytes.size - base);
        put_local(&zip->bytes, &files[i]);
        zip->data_offsets[i] = zip->bytes.size;
        strbuf_add_str(&zip->bytes, files[i].data);
    }
    size_t directory = zip->bytes.size;
    for (size_t i = 0; i < n; i++)
        put_central(&zip->bytes, &files[i], offsets[i]);
    size_t directory_size = zip->bytes.size - directory;
    put(&zip->bytes, 0x06054b50, 4);
    put(&zip->bytes, 0, 4); // disks
    put(&zip->bytes, claimed, 2);
    put(&zip->bytes, claimed, 2);
    put(&zip->bytes, directory_size, 4);
    put(&zip->bytes, directory - base, 4);
    put(&zip->bytes, 0, 2);
}

static int zip_bytes(void *userdata, uint64_t offset, void *ret, size_t size)
{
    const struct zip *zip = userdata;
    assert_true(offset + size <= zip->bytes.size);
    assert_true(size <= 4096);
    if (zip->fail_read)
        return zip->fail_read;
    memcpy(ret, zip->bytes.text + offset, size);
    return 0;
}

static int zip_index(struct zip *zip, struct zipindex *index, struct err *err)
{
    struct zipindex_source source = {
        .size_bytes = zip->bytes.size, .read = zip_bytes, .userdata = zip};
    return zipindex_read(&source, "t.zip", index, err);
}

static void data_begin_after_headers(void **state)
{
    (void)state;
    static const struct file files[] = {
        {.name = "stored", .data = "0123456789"},
        {.name = "dir/", .data = ""},
        {.name = "lib/aligned.so", .data = "abc", .extra_bytes = 4000},
        {.name = "deflated", .data = "xyz!", .method = 8},
        {.name = "zip64", .data = "12345", .zip64 = true},
    };
    for (int prefixed = 0; prefixed < 2; prefixed++) {
        struct zip zip;
        CLEANUP(zipindex_done) struct zipindex index = {0};
        zip_make(&zip, prefixed ? "#!/bin/sh\nexit\n" : "", 5, files, 5);
        assert_int_equal(zip_index(&zip, &index, NULL), 0);
        assert_int_equal(index.entries.n, 5);
        assert_int_equal(index.n_damaged, 0);
        for (size_t i = 0; i < 5; i++) {
            const struct zipindex_entry *entry = &index.entries.items[i];
            assert_string_equal(entry->name, files[i].name);
            assert_int_equal(entry->offset, zip.data_offsets[i]);
            assert_int_equal(entry->size_bytes, strlen(files[i].data));
            assert_int_equal(entry->method, files[i].method);
            assert_memory_equal(zip.bytes.text + entry->offset, files[i].data, entry->size_bytes);
        }
        strbuf_done(&zip.bytes);
    }
}

static void check_one_damaged(size_t n, const struct file *files, const char *what)
{
    struct zip zip;
    CLEANUP(zipindex_done) struct zipindex index = {0};
    zip_make(&zip, "", n, files, (unsigned)n);
    assert_int_equal(zip_index(&zip, &index, NULL), 0);
    assert_int_equal(index.n_damaged, 1);
    assert_string_equal(index.first_damaged, what);
    assert_int_equal(index.entries.n, n - 1);
    for (size_t i = 0; i + 1 < n; i++)
        assert_string_equal(index.entries.items[i].name, files[i].name);
    strbuf_done(&zip.bytes);
}

static void entries_that_lie_are_left_out(void **state)
{
    (void)state;
    struct file files[] = {
        {.name = "good", .data = "0123456789"},
        {.name = "bad", .data = "abc", .has_lie = true, .lie_offset = 44},
    };
    files[1].lie_size = 3; // at `good`'s data
    files[1].lie_offset = 40;
    check_one_damaged(2, files, "\"bad\" is not where the directory says");
    files[1].lie_offset = 4000000000; // beyond the end
    check_one_damaged(2, files, "\"bad\" is not where the directory says");
    files[1].lie_offset = 44; // its own header, with another size
    files[1].lie_size = 2;
    check_one_damaged(2, files, "\"bad\" is not where the directory says");
}

static void data_beyond_the_directory_are_left_out(void **state)
{
    (void)state;
    // The local header has the wrong size, too, so that only the place of the directory shows the
    // error.
    struct file files[] = {
        {.name = "good", .data = "0123456789"},
        {.name = "bad", .data = "abc"},
    };
    struct zip zip;
    CLEANUP(zipindex_done) struct zipindex index = {0};
    zip_make(&zip, "", 2, files, 2);
    size_t local = (size_t)zip.data_offsets[1] - 3 - LOCAL_HEADER_BYTES;
    size_t central = (size_t)zip.data_offsets[1] + 3 + 46 + 4;
    zip.bytes.text[local + 18] = 4; // one byte too many
    zip.bytes.text[central + 20] = 4;
    assert_int_equal(zip_index(&zip, &index, NULL), 0);
    assert_int_equal(index.entries.n, 1);
    assert_string_equal(index.first_damaged, "\"bad\" reaches beyond the data of the zip");
    strbuf_done(&zip.bytes);
}

static void overlapping_entries_are_left_out(void **state)
{
    (void)state;
    // The data of one entry contain another whole entry, with its header.
    struct file inner = {.name = "b", .data = "12345"};
    struct zip zip;
    struct strbuf data = {0};
    put_local(&data, &inner);
    size_t header = data.size;
    strbuf_add_str(&data, inner.data);
    assert_int_equal(header, 31);
    CLEANUP(zipindex_done) struct zipindex index = {0};
    struct file files[] = {
        {.name = "a", .data = "0123456789012345678901234567890123456789"},
        {.name = "b", .data = "12345", .has_lie = true, .lie_offset = 31, .lie_size = 5},
    };
    zip_make(&zip, "", 2, files, 2);
    memcpy(zip.bytes.text + zip.data_offsets[0], data.text, data.size);
    assert_int_equal(zip_index(&zip, &index, NULL), 0);
    assert_int_equal(index.entries.n, 1);
    assert_string_equal(index.entries.items[0].name, "a");
    assert_int_equal(index.n_damaged, 1);
    assert_string_equal(index.first_damaged, "\"b\" overlaps another entry");
    strbuf_done(&zip.bytes);
    strbuf_done(&data);
}

static void any_method_will_do(void **state)
{
    (void)state;
    static const struct file files[] = {{.name = "zstd", .data = "22", .method = 93}};
    struct zip zip;
    CLEANUP(zipindex_done) struct zipindex index = {0};
    zip_make(&zip, "", 1, files, 1);
    assert_int_equal(zip_index(&zip, &index, NULL), 0);
    assert_int_equal(index.entries.n, 1);
    assert_int_equal(index.entries.items[0].method, 93);
    strbuf_done(&zip.bytes);
}

static void bad_directories_are_refused(void **state)
{
    (void)state;
    static const struct file files[] = {{.name = "a", .data = "1"}, {.name = "b", .data = "2"}};
    struct zip zip;
    struct zipindex index = {0};
    struct err err = {0};
    zip_make(&zip, "", 2, files, 3); // one entry more than the directory has
    assert_int_equal(zip_index(&zip, &index, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "damaged after entry 2"));
    assert_int_equal(index.entries.n, 0);
    zip.bytes.text[zip.bytes.size - 22 - 47]++; // no longer a record's signature
    assert_int_equal(zip_index(&zip, &index, &err), -EBADMSG);
    zip.bytes.size -= 5; // the end record is cut
    assert_int_equal(zip_index(&zip, &index, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "not a zip"));
    zip.bytes.size = 0;
    assert_int_equal(zip_index(&zip, &index, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "not a zip"));
    strbuf_done(&zip.bytes);
}

static void empty_zip_has_no_entries(void **state)
{
    (void)state;
    struct zip zip;
    CLEANUP(zipindex_done) struct zipindex index = {0};
    zip_make(&zip, "", 0, NULL, 0);
    assert_int_equal(zip_index(&zip, &index, NULL), 0);
    assert_int_equal(index.entries.n, 0);
    strbuf_done(&zip.bytes);
}

static void failures_to_read_are_passed_on(void **state)
{
    (void)state;
    static const struct file files[] = {{.name = "a", .data = "1"}};
    struct zip zip;
    struct zipindex index = {0};
    struct err err = {0};
    zip_make(&zip, "", 1, files, 1);
    zip.fail_read = -EIO;
    assert_int_equal(zip_index(&zip, &index, &err), -EIO);
    strbuf_done(&zip.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_begin_after_headers),
        cmocka_unit_test(entries_that_lie_are_left_out),
        cmocka_unit_test(data_beyond_the_directory_are_left_out),
        cmocka_unit_test(overlapping_entries_are_left_out),
        cmocka_unit_test(any_method_will_do),
        cmocka_unit_test(bad_directories_are_refused),
        cmocka_unit_test(empty_zip_has_no_entries),
        cmocka_unit_test(failures_to_read_are_passed_on),
    };
    return cmocka_run_group_tests_name("zipindex", tests, NULL, NULL);
}
