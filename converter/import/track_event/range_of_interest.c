// SPDX-License-Identifier: Apache-2.0
//
// The range of interest: with --crop-track-events, track events before its start make no rows. The
// packet may be anywhere in the file, so it is read in file order, before the events.
#include "converter/import/importer.h"
#include "converter/import/track_event/track_events.h"
#include "protos/fields.h"

static void range_now(struct import *im, const struct packet *packet)
{
    struct track_events *all = packet->own;
    MESSAGE(range, TrackEventRangeOfInterest, packet->message);
    if (!field_present(&range.start_us)) {
        stats_add(&im->stats, STAT_track_event_range_of_interest_missing_start_us, 1);
        return;
    }
    all->is_cropped = database_selection(im->db)->crops_track_events;
    int64_t start_us = field_i64(&range.start_us);
    if (__builtin_mul_overflow(start_us, NSEC_PER_USEC, &all->crop_ts))
        all->crop_ts = start_us < 0 ? INT64_MIN : INT64_MAX;
    metadata_set_int(&im->metadata, "range_of_interest_start_us", start_us);
}

const struct importer importer_range_of_interest = {
    .field = PB_TracePacket_track_event_range_of_interest,
    .now = range_now,
    .shares = &importer_track_descriptor,
};
