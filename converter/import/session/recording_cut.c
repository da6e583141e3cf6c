// SPDX-License-Identifier: Apache-2.0
//
// RecordingCut: the recorder died before the end of the trace, or gave the recording up for want of
// room. The file was closed afterwards.
#include "converter/import/importer.h"
#include "protos/fields.h"

static void recording_cut_now(struct import *im, const struct packet *packet)
{
    (void)packet;
    stats_add(&im->stats, STAT_mmsql_recording_cut, 1);
}

const struct importer importer_recording_cut = {
    .field = PB_TracePacket_recording_cut,
    .now = recording_cut_now,
};
