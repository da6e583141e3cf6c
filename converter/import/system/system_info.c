// SPDX-License-Identifier: Apache-2.0
//
// SystemInfo: the machine that the trace was recorded on.
#include "common/elements.h"
#include "common/task_state.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define PAGE_SIZE_DEFAULT 4096
#define GB                1000000000.0

struct system_info {
    union message_Utsname utsname;
    union message_SystemInfo info;
    int64_t sdk_version; // 0: not known
};

// The SDK levels of Android's releases before 13. The packets of later releases have the level.
static const struct {
    const char *release;
    uint32_t sdk_version;
} releases[] = {
    {"12", 31},  {"11", 30},  {"10", 29},    {"9", 28},   {"8.1", 27},   {"8.0", 26},   {"7.1", 25},
    {"7.0", 24}, {"6.0", 23}, {"5.1.1", 22}, {"5.1", 22}, {"5.0.2", 21}, {"5.0.1", 21}, {"5.0", 21},
};

struct fingerprint {
    struct text release, incremental;
};

// Removes the front of *rest up to the character `end`, and returns the front in *ret.
static bool text_take(struct text *rest, char end, struct text *ret)
{
    const char *at = rest->size ? memchr(rest->at, end, rest->size) : NULL;
    if (!at)
        return false;
    size_t size = (size_t)(at - rest->at);
    *ret = (struct text){rest->at, size};
    *rest = (struct text){at + 1, rest->size - size - 1};
    return true;
}

// Reads BRAND/PRODUCT/DEVICE:RELEASE/ID/INCREMENTAL:TYPE/TAGS.
static bool fingerprint_read(struct text text, struct fingerprint *ret)
{
    struct text part;
    return text_take(&text, ':', &part) && text_take(&text, '/', &ret->release) &&
           text_take(&text, '/', &part) && text_take(&text, ':', &ret->incremental);
}

static int64_t sdk_version_of(struct text release)
{
    for (size_t i = 0; i < ELEMENTS(releases); i++)
        if (text_eq(release, text_from(releases[i].release)))
            return releases[i].sdk_version;
    return 0;
}

// Sets the build and its SDK level. If the trace has only the fingerprint, the fingerprint gives
// both.
static void build_read(struct import *im, struct system_info *state)
{
    const union message_SystemInfo *info = &state->info;
    struct fingerprint fingerprint = {0};
    if (fingerprint_read(field_words(&info->android_build_fingerprint), &fingerprint))
        metadata_set_text(&im->metadata, "android_incremental_build", fingerprint.incremental);
    bool is_told = field_present(&info->android_sdk_version);
    state->sdk_version =
        is_told ? field_i64(&info->android_sdk_version) : sdk_version_of(fingerprint.release);
    if (is_told || state->sdk_version)
        metadata_set_int(&im->metadata, "android_sdk_version", state->sdk_version);
}

static void text_fact(struct import *im, const char *name, const struct wire_field *field)
{
    if (field_present(field))
        metadata_set_text(&im->metadata, name, field_words(field));
}

static const struct {
    uint32_t field;
    const char *name;
} texts[] = {
    {PB_SystemInfo_android_build_fingerprint, "android_build_fingerprint"},
    {PB_SystemInfo_android_device_manufacturer, "android_device_manufacturer"},
    {PB_SystemInfo_android_soc_model, "android_soc_model"},
    {PB_SystemInfo_android_guest_soc_model, "android_guest_soc_model"},
    {PB_SystemInfo_android_hardware_revision, "android_hardware_revision"},
    {PB_SystemInfo_android_storage_model, "android_storage_model"},
    {PB_SystemInfo_android_ram_model, "android_ram_model"},
    {PB_SystemInfo_android_serial_console, "android_serial_console"},
    {PB_SystemInfo_tracing_service_version, "tracing_service_version"},
};

static int64_t ram_gb(int64_t bytes)
{
    return (int64_t)((double)bytes / GB + 0.5);
}

static void fields_merge(struct wire_field *to, const struct wire_field *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (field_present(&from[i]))
            to[i] = from[i];
}

// A later packet adds to the facts of the packets before.
static void packet_merge(struct system_info *state, const struct packet *packet)
{
    union message_SystemInfo info;
    union message_Utsname utsname;
    message_read(wire_sub(packet->message), info.at, ELEMENTS(info.at));
    fields_merge(state->info.at, info.at, ELEMENTS(info.at));
    message_read(wire_sub(&info.utsname), utsname.at, ELEMENTS(utsname.at));
    fields_merge(state->utsname.at, utsname.at, ELEMENTS(utsname.at));
}

static void system_info_now(struct import *im, const struct packet *packet)
{
    struct system_info *state = packet->own;
    const union message_SystemInfo *info = &state->info;
    const union message_Utsname *utsname = &state->utsname;
    packet_merge(state, packet);
    text_fact(im, "system_name", &utsname->sysname);
    text_fact(im, "system_version", &utsname->version);
    text_fact(im, "system_release", &utsname->release);
    text_fact(im, "system_machine", &utsname->machine);
    uint32_t version = 0;
    if (text_eq(field_words(&utsname->sysname), TEXT("Linux")))
        version = kernel_version_of(field_text(&utsname->release), utsname->release.size);
    if (version)
        im->machine->kernel_version = version;
    im->machine->architecture =
        import_text_keep(im, field_text(&utsname->machine), utsname->machine.size).text;
    for (size_t i = 0; i < ELEMENTS(texts); i++)
        text_fact(im, texts[i].name, &info->at[texts[i].field]);
    if (field_present(&info->timezone_off_mins))
        metadata_set_int(&im->metadata, "timezone_off_mins",
                         (int32_t)field_i64(&info->timezone_off_mins));
    build_read(im, state);
    if (field_present(&info->system_ram_bytes)) {
        int64_t bytes = field_i64(&info->system_ram_bytes);
        metadata_set_int(&im->metadata, "system_ram_bytes", bytes);
        metadata_set_int(&im->metadata, "system_ram_gb", ram_gb(bytes));
    }
    uint32_t page_size = (uint32_t)field_u64(&info->page_size);
    im->machine->page_size = page_size ? page_size : PAGE_SIZE_DEFAULT;
    if (im->machine->page_size != PAGE_SIZE_DEFAULT) // pages are the unit of some counters
        metadata_set_int(&im->metadata, "mmsql_page_size_bytes", page_size);
}

// Returns the number of a machine in its label. Machines other than the host are counted from 1.
static int64_t label_index(const struct import *im)
{
    int64_t n = 0;
    for (uint32_t i = 0; i <= im->machine->number; i++)
        n += im->machines.items[i]->raw_id != 0;
    return n;
}

// Writes the row of the machine. A trace has at least one machine, even without a SystemInfo.
static void system_info_finish(struct import *im, void *userdata)
{
    const struct system_info *state = userdata;
    const union message_SystemInfo *info = &state->info;
    const union message_Utsname *utsname = &state->utsname;
    struct cell *row = database_row_with_id(im->db, TABLE_machine, im->machine->number);
    cell_int(row, COL_machine_raw_id, im->machine->raw_id);
    cell_field(row, COL_machine_name, &info->machine_name);
    cell_field(row, COL_machine_sysname, &utsname->sysname);
    cell_field(row, COL_machine_release, &utsname->release);
    cell_field(row, COL_machine_version, &utsname->version);
    cell_field(row, COL_machine_arch, &utsname->machine);
    cell_number(row, COL_machine_num_cpus, &info->num_cpus);
    cell_field(row, COL_machine_android_build_fingerprint, &info->android_build_fingerprint);
    cell_field(row, COL_machine_android_device_manufacturer, &info->android_device_manufacturer);
    if (field_present(&info->android_sdk_version) || state->sdk_version)
        cell_int(row, COL_machine_android_sdk_version, state->sdk_version);
    cell_number(row, COL_machine_system_ram_bytes, &info->system_ram_bytes);
    if (field_present(&info->system_ram_bytes))
        cell_int(row, COL_machine_system_ram_gb, ram_gb(field_i64(&info->system_ram_bytes)));
    cell_int(row, COL_machine_label_index, im->machine->raw_id ? label_index(im) : 0);
}

const struct importer importer_system_info = {
    .field = PB_TracePacket_system_info,
    .now = system_info_now,
    .state_size = sizeof(struct system_info),
    .finish = system_info_finish,
};
