// SPDX-License-Identifier: Apache-2.0
//
// _intrinsic_package_lookup: the Android package that a user id belongs to. Each statement reads
// the list of packages once, and keeps the best package of each user id.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/elements.h"
#include "common/str.h"
#include "common/vec.h"
#include "converter/functions/functions.h"

SQLITE_EXTENSION_INIT3

#define UIDS_PER_USER 100000
#define UID_APP_FIRST 10000

struct package {
    uint32_t uid; // without the user
    int rank;
    char *name; // owned
};
VEC_DEFINE(package_vec, struct package);

// A range of user ids that Android reserves.
struct reserved {
    uint32_t first, last;
    const char *name;
};

// In order of user ids, with the names of Android's list of user ids.
static const struct reserved reserved[] = {
    {0, 0, "AID_ROOT"},
    {1000, 1000, "AID_SYSTEM_USER"},
    {1001, 1001, "AID_RADIO"},
    {1002, 1002, "AID_BLUETOOTH"},
    {1003, 1003, "AID_GRAPHICS"},
    {1004, 1004, "AID_INPUT"},
    {1005, 1005, "AID_AUDIO"},
    {1006, 1006, "AID_CAMERA"},
    {1007, 1007, "AID_LOG"},
    {1008, 1008, "AID_COMPASS"},
    {1009, 1009, "AID_MOUNT"},
    {1010, 1010, "AID_WIFI"},
    {1011, 1011, "AID_ADB"},
    {1012, 1012, "AID_INSTALL"},
    {1013, 1013, "AID_MEDIA"},
    {1014, 1014, "AID_DHCP"},
    {1015, 1015, "AID_SDCARD_RW"},
    {1016, 1016, "AID_VPN"},
    {1017, 1017, "AID_KEYSTORE"},
    {1018, 1018, "AID_USB"},
    {1019, 1019, "AID_DRM"},
    {1020, 1020, "AID_MDNSR"},
    {1021, 1021, "AID_GPS"},
    {1022, 1022, "AID_UNUSED1"},
    {1023, 1023, "AID_MEDIA_RW"},
    {1024, 1024, "AID_MTP"},
    {1025, 1025, "AID_UNUSED2"},
    {1026, 1026, "AID_DRMRPC"},
    {1027, 1027, "AID_NFC"},
    {1028, 1028, "AID_SDCARD_R"},
    {1029, 1029, "AID_CLAT"},
    {1030, 1030, "AID_LOOP_RADIO"},
    {1031, 1031, "AID_MEDIA_DRM"},
    {1032, 1032, "AID_PACKAGE_INFO"},
    {1033, 1033, "AID_SDCARD_PICS"},
    {1034, 1034, "AID_SDCARD_AV"},
    {1035, 1035, "AID_SDCARD_ALL"},
    {1036, 1036, "AID_LOGD"},
    {1037, 1037, "AID_SHARED_RELRO"},
    {1038, 1038, "AID_DBUS"},
    {1039, 1039, "AID_TLSDATE"},
    {1040, 1040, "AID_MEDIA_EX"},
    {1041, 1041, "AID_AUDIOSERVER"},
    {1042, 1042, "AID_METRICS_COLL"},
    {1043, 1043, "AID_METRICSD"},
    {1044, 1044, "AID_WEBSERV"},
    {1045, 1045, "AID_DEBUGGERD"},
    {1046, 1046, "AID_MEDIA_CODEC"},
    {1047, 1047, "AID_CAMERASERVER"},
    {1048, 1048, "AID_FIREWALL"},
    {1049, 1049, "AID_TRUNKS"},
    {1050, 1050, "AID_NVRAM"},
    {1051, 1051, "AID_DNS"},
    {1052, 1052, "AID_DNS_TETHER"},
    {1053, 1053, "AID_WEBVIEW_ZYGOTE"},
    {1054, 1054, "AID_VEHICLE_NETWORK"},
    {1055, 1055, "AID_MEDIA_AUDIO"},
    {1056, 1056, "AID_MEDIA_VIDEO"},
    {1057, 1057, "AID_MEDIA_IMAGE"},
    {1058, 1058, "AID_TOMBSTONED"},
    {1059, 1059, "AID_MEDIA_OBB"},
    {1060, 1060, "AID_ESE"},
    {1061, 1061, "AID_OTA_UPDATE"},
    {1062, 1062, "AID_AUTOMOTIVE_EVS"},
    {1063, 1063, "AID_LOWPAN"},
    {1064, 1064, "AID_HSM"},
    {1065, 1065, "AID_RESERVED_DISK"},
    {1066, 1066, "AID_STATSD"},
    {1067, 1067, "AID_INCIDENTD"},
    {1068, 1068, "AID_SECURE_ELEMENT"},
    {1069, 1069, "AID_LMKD"},
    {1070, 1070, "AID_LLKD"},
    {1071, 1071, "AID_IORAPD"},
    {1072, 1072, "AID_GPU_SERVICE"},
    {1073, 1073, "AID_NETWORK_STACK"},
    {1074, 1074, "AID_GSID"},
    {1075, 1075, "AID_FSVERITY_CERT"},
    {1076, 1076, "AID_CREDSTORE"},
    {1077, 1077, "AID_EXTERNAL_STORAGE"},
    {1078, 1078, "AID_EXT_DATA_RW"},
    {1079, 1079, "AID_EXT_OBB_RW"},
    {1080, 1080, "AID_CONTEXT_HUB"},
    {1081, 1081, "AID_VIRTMANAGER"},
    {1082, 1082, "AID_ARTD"},
    {1083, 1083, "AID_UWB"},
    {1084, 1084, "AID_THREAD_NETWORK"},
    {1085, 1085, "AID_DICED"},
    {1086, 1086, "AID_DMESGD"},
    {1087, 1087, "AID_JC_WEAVER"},
    {1088, 1088, "AID_JC_STRONGBOX"},
    {1089, 1089, "AID_JC_IDENTITYCRED"},
    {1090, 1090, "AID_SDK_SANDBOX"},
    {1091, 1091, "AID_SECURITY_LOG_WRITER"},
    {1092, 1092, "AID_PRNG_SEEDER"},
    {1093, 1093, "AID_UPROBESTATS"},
    {2000, 2000, "AID_SHELL"},
    {2001, 2001, "AID_CACHE"},
    {2002, 2002, "AID_DIAG"},
    {9999, 9999, "AID_NOBODY"},
    {50000, 59999, "SHARED_GID"},
    {90000, 99999, "ISOLATED_UID"},
};

static void packages_free(void *userdata)
{
    struct package_vec *packages = userdata;
    vec_foreach(packages, package)
        free(package->name);
    package_vec_done(packages);
    free(packages);
}

// Returns the rank of a package: an app is better than a provider that shares its user id, and the
// services of Google are best.
static int package_rank(const char *name)
{
    return str_starts_with(name, "com.android.providers.") ? 0
           : strcmp(name, "com.google.android.gms") == 0   ? 2
                                                           : 1;
}

// Adds the package. If the last package has the same user id, the better of the two stays.
static int package_add(struct package_vec *packages, uint32_t uid, const char *name)
{
    int rank = package_rank(name);
    struct package *last = packages->n ? &packages->items[packages->n - 1] : NULL;
    if (last && last->uid == uid && last->rank >= rank)
        return 0;
    struct package package = {uid, rank, strdup(name)};
    if (package.name && last && last->uid == uid) {
        free(last->name);
        *last = package;
        return 0;
    }
    if (package.name && package_vec_push(packages, package) == 0)
        return 0;
    free(package.name);
    return -1;
}

static int packages_read(sqlite3 *handle, struct package_vec *ret)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle,
                                  "SELECT uid, package_name FROM package_list WHERE "
                                  "package_name > '' ORDER BY uid, id",
                                  -1, &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(statement, 1);
        if (!name || package_add(ret, (uint32_t)sqlite3_column_int64(statement, 0), name) < 0)
            break;
    }
    sqlite3_finalize(statement);
    return code == SQLITE_DONE ? SQLITE_OK : code == SQLITE_ROW ? SQLITE_NOMEM : code;
}

// Returns the packages by user id, which all calls in one statement share. Reports an error and
// returns NULL on failure.
static const struct package_vec *packages_of(sqlite3_context *context)
{
    struct package_vec *packages = sqlite3_get_auxdata(context, SHARED_PACKAGES);
    if (packages)
        return packages;
    packages = calloc(1, sizeof(*packages));
    sqlite3 *handle = sqlite3_context_db_handle(context);
    int code = packages ? packages_read(handle, packages) : SQLITE_NOMEM;
    if (code != SQLITE_OK) {
        if (packages)
            packages_free(packages);
        if (code == SQLITE_NOMEM)
            sqlite3_result_error_nomem(context);
        else
            sqlite3_result_error(context, sqlite3_errmsg(handle), -1);
        return NULL;
    }
    sqlite3_set_auxdata(context, SHARED_PACKAGES, packages, packages_free);
    return sqlite3_get_auxdata(context, SHARED_PACKAGES);
}

static int by_uid(const void *key, const void *package)
{
    uint32_t uid = *(const uint32_t *)key, other = ((const struct package *)package)->uid;
    return uid < other ? -1 : uid > other;
}

static int by_range(const void *key, const void *range)
{
    uint32_t uid = *(const uint32_t *)key;
    const struct reserved *other = range;
    return uid < other->first ? -1 : uid > other->last;
}

static void package_lookup(sqlite3_context *context, int argc, sqlite3_value **argv)
{
    (void)argc;
    int type = sqlite3_value_type(argv[0]);
    if (type == SQLITE_NULL)
        return;
    if (type != SQLITE_INTEGER) {
        sqlite3_result_error(context, "PACKAGE_LOOKUP: the user id is not a whole number", -1);
        return;
    }
    const struct package_vec *packages = packages_of(context);
    if (!packages)
        return;
    uint32_t uid = (uint32_t)sqlite3_value_int64(argv[0]), app = uid % UIDS_PER_USER;
    const struct package *package = NULL;
    if (app >= UID_APP_FIRST && packages->n)
        package = bsearch(&app, packages->items, packages->n, sizeof(*package), by_uid);
    const struct reserved *range =
        bsearch(&app, reserved, ELEMENTS(reserved), sizeof(*reserved), by_range);
    char text[24];
    snprintf(text, sizeof(text), "uid=%" PRIu32, uid);
    sqlite3_result_text(context,
                        package ? package->name
                        : range ? range->name
                                : text,
                        -1, SQLITE_TRANSIENT);
}

int package_functions_register(sqlite3 *handle)
{
    static const struct scalar_function functions[] = {
        {"_intrinsic_package_lookup", 1, package_lookup, READS_DATABASE},
    };
    return scalar_functions_add(handle, functions, ELEMENTS(functions));
}
