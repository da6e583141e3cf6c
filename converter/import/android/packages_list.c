// SPDX-License-Identifier: Apache-2.0
//
// PackagesList: the apps of an Android device. Recorders repeat the list from time to time; an
// unchanged package gets no further row.
#include <errno.h>

#include "common/map.h"
#include "converter/import/android/packages.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

// Shared by all machines.
struct package_names {
    struct map64 by_uid; // -> the name, in strings
    struct strset keys;  // name and user id of known packages
};

extern const struct importer importer_packages;

const uint64_t *packages_find(const struct import *im, uint32_t uid)
{
    const struct package_names *names = importer_state(im, &importer_packages);
    return map64_find(&names->by_uid, uid);
}

bool packages_see(struct import *im, const struct wire_field *name, int64_t uid, bool *ret_new)
{
    struct package_names *names = importer_state(im, &importer_packages);
    uint32_t text = strset_add(&im->strings, field_text(name), name->size);
    int64_t key[] = {text, uid};
    size_t n = names->keys.n;
    bool is_first;
    if (text == STRSET_NONE ||
        strset_add(&names->keys, (const char *)key, sizeof(key)) == STRSET_NONE ||
        !map64_get_or_add(&names->by_uid, (uint64_t)uid, text, &is_first)) {
        import_fail(im, -ENOMEM);
        return false;
    }
    *ret_new = names->keys.n > n;
    return true;
}

// Writes the row of a package. `seen`: all fields of the packages that have a row.
static void package_read(struct import *im, struct strset *seen, const struct wire_field *message)
{
    MESSAGE(part, PackagesList_PackageInfo, message);
    const struct wire_field *name = &part.name;
    int64_t key[] = {
        strset_add(&im->strings, field_text(name), name->size),
        field_i64(&part.uid),
        field_u64(&part.debuggable) != 0,
        field_u64(&part.profileable_from_shell) != 0,
        field_i64(&part.version_code),
    };
    size_t n = seen->n;
    bool has_memory = strset_add(seen, (const char *)key, sizeof(key)) != STRSET_NONE, is_new;
    import_fail(im, has_memory ? 0 : -ENOMEM);
    if (seen->n == n || !packages_see(im, name, key[1], &is_new))
        return;
    struct cell *row = database_row(im->db, TABLE_package_list, NULL);
    cell_bytes(row, COL_package_list_package_name, name->data, name->size);
    cell_int(row, COL_package_list_uid, key[1]);
    cell_int(row, COL_package_list_debuggable, key[2]);
    cell_int(row, COL_package_list_profileable_from_shell, key[3]);
    cell_int(row, COL_package_list_version_code, key[4]);
}

static void packages_list_now(struct import *im, const struct packet *packet)
{
    struct wire_reader reader = wire_sub(packet->message);
    struct wire_field field;
    while (!import_failed(im) && wire_next(&reader, &field)) {
        if (field.number == PB_PackagesList_packages)
            package_read(im, packet->own, &field);
        else if (field.number == PB_PackagesList_parse_error && field.value)
            stats_add(&im->stats, STAT_packages_list_has_parse_errors, 1);
        else if (field.number == PB_PackagesList_read_error && field.value)
            stats_add(&im->stats, STAT_packages_list_has_read_errors, 1);
    }
}

static void packages_list_done(void *state)
{
    strset_done(state);
}

const struct importer importer_packages_list = {
    .field = PB_TracePacket_packages_list,
    .now = packages_list_now,
    .state_size = sizeof(struct strset),
    .done = packages_list_done,
};

static void packages_done(void *state)
{
    struct package_names *names = state;
    map64_done(&names->by_uid);
    strset_done(&names->keys);
}

const struct importer importer_packages = {
    .state_size = sizeof(struct package_names),
    .of_all_machines = true,
    .done = packages_done,
};
