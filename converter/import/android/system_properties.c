// SPDX-License-Identifier: Apache-2.0
//
// AndroidSystemProperty: values of the properties that Android's services publish for traces. A few
// properties are counters, one property is the device's state, and other properties are facts about
// the trace.
#include <limits.h>
#include <stdlib.h>

#include "common/elements.h"
#include "converter/import/importer.h"
#include "protos/fields.h"

#define PREFIX   "debug.tracing."
#define TEXT_MAX 32 // bytes of a value that may be a number

// Counters, by their names after the prefix. `track` NULL: the track has the counter's name.
static const struct {
    const char *name, *track;
} counters[] = {
    {"mcc", NULL},
    {"mnc", NULL},
    {"desktop_mode_visible_tasks", NULL},
    {"battery_status", "BatteryStatus"},
    {"plug_type", "PlugType"},
};

static const struct {
    const char *name, *fact;
} number_facts[] = {
    {"profile_boot_classpath", "android_profile_boot_classpath"},
    {"profile_system_server", "android_profile_system_server"},
};

// The name of a fact is the name of the whole property.
static const char *const text_facts[] = {
    PREFIX "wallpaper.package_name",
    PREFIX "wallpaper.class_name",
};

static bool number_read(const struct wire_field *value, int32_t *ret)
{
    char text[TEXT_MAX], *end;
    if (!value->size || value->size >= sizeof(text))
        return false;
    memcpy(text, value->data, value->size);
    text[value->size] = '\0';
    long number = strtol(text, &end, 10);
    *ret = (int32_t)number;
    return end == text + value->size && number >= INT_MIN && number <= INT_MAX;
}

static void property_push(struct import *im, int64_t ts, const char *type, const char *dimension,
                          struct slice_name key, struct slice_name name, int32_t value)
{
    struct track_spec spec = {.type = type, .counter = true, .name = name};
    if (dimension)
        spec.dimensions[0] = dimension_text(dimension, key.text, key.size);
    counter_push(im, ts, tracks_get(&im->tracks, &spec), value, ARG_SET_NONE);
}

static void device_state(struct import *im, int64_t ts, const struct wire_field *value)
{
    struct track_spec track = {.type = "android_device_state",
                               .name = slice_name("DeviceStateChanged")};
    struct slice_spec spec = {
        .ts = ts,
        .track = tracks_get(&im->tracks, &track),
        .name = field_name(value),
    };
    slice_add(&im->slices, &spec);
}

// Adds a value of a property that is a number. `name` is `full` without the prefix.
static void number_property(struct import *im, int64_t ts, struct slice_name full,
                            struct slice_name name, int32_t value)
{
    for (size_t i = 0; i < ELEMENTS(number_facts); i++)
        if (name_is(name, number_facts[i].name))
            metadata_set_int(&im->metadata, number_facts[i].fact, value);
    if (name_is(name, "screen_state"))
        property_push(im, ts, "screen_state", NULL, full, slice_name("ScreenState"), value);
    if (name_begins(name, "battery_stats."))
        property_push(im, ts, "battery_stats", "counter_key", name, name, value);
    for (size_t i = 0; i < ELEMENTS(counters); i++)
        if (name_is(name, counters[i].name))
            property_push(im, ts, "sysprop_counter", "sysprop_name", full,
                          counters[i].track ? slice_name(counters[i].track) : name, value);
}

static void property(struct import *im, int64_t ts, const struct wire_field *message)
{
    MESSAGE(part, AndroidSystemProperty_PropertyValue, message);
    const struct wire_field *value = &part.value;
    struct slice_name full = field_name(&part.name);
    if (!name_begins(full, PREFIX))
        return;
    struct slice_name name = {full.text + strlen(PREFIX), full.size - strlen(PREFIX)};
    int32_t number;
    for (size_t i = 0; i < ELEMENTS(text_facts); i++)
        if (name_is(full, text_facts[i]))
            metadata_set_text(&im->metadata, text_facts[i], field_words(value));
    if (name_is(name, "device_state"))
        device_state(im, ts, value);
    else if (number_read(value, &number))
        number_property(im, ts, full, name, number);
}

static void properties_sorted(struct import *im, const struct packet *packet)
{
    for (struct fields each = fields_of(packet->message, PB_AndroidSystemProperty_values);
         fields_next(&each);)
        property(im, packet->ts, &each.field);
}

const struct importer importer_system_properties = {.field = PB_TracePacket_android_system_property,
                                                    .sorted = properties_sorted};
