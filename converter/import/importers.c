// SPDX-License-Identifier: Apache-2.0
//
// The packet kinds that are understood, a row each.
#include <stdint.h>

#include "common/elements.h"
#include "converter/import/importer.h"

extern const struct importer importer_aconfig_flags;
extern const struct importer importer_android_log;
extern const struct importer importer_art_process_metadata;
extern const struct importer importer_battery;
extern const struct importer importer_concurrent_sessions;
extern const struct importer importer_chrome_benchmark;
extern const struct importer importer_chrome_metadata;
extern const struct importer importer_chrome_trigger;
extern const struct importer importer_range_of_interest;
extern const struct importer importer_statsd_atom;
extern const struct importer importer_trace_attributes;
extern const struct importer importer_ui_state;
extern const struct importer importer_clone_trigger;
extern const struct importer importer_cpu_info;
extern const struct importer importer_cpu_per_uid;
extern const struct importer importer_deobfuscation_mapping;
extern const struct importer importer_display_state;
extern const struct importer importer_energy_breakdown;
extern const struct importer importer_entity_state;
extern const struct importer importer_etw;
extern const struct importer importer_extension_descriptor;
extern const struct importer importer_frame_timeline;
extern const struct importer importer_ftrace;
extern const struct importer importer_ftrace_stats;
extern const struct importer importer_game_interventions;
extern const struct importer importer_gpu_counters;
extern const struct importer importer_gpu_frequency;
extern const struct importer importer_gpu_info;
extern const struct importer importer_gpu_log;
extern const struct importer importer_gpu_memory;
extern const struct importer importer_graphics_frames;
extern const struct importer importer_generic_cpu_frequency;
extern const struct importer importer_generic_process_tree;
extern const struct importer importer_generic_task_rename;
extern const struct importer importer_generic_task_state;
extern const struct importer importer_heap_graph;
extern const struct importer importer_chrome_events;
extern const struct importer importer_inodes;
extern const struct importer importer_interrupts;
extern const struct importer importer_metatrace;
extern const struct importer importer_journald;
extern const struct importer importer_kernel_wakelocks;
extern const struct importer importer_malloc_info;
extern const struct importer importer_recording_cut;
extern const struct importer importer_memory_snapshot;
extern const struct importer importer_modem_events;
extern const struct importer importer_modem_texts;
extern const struct importer importer_module_symbols;
extern const struct importer importer_network_bundle;
extern const struct importer importer_network_packet;
extern const struct importer importer_packages_list;
extern const struct importer importer_perf_map;
extern const struct importer importer_page_residency;
extern const struct importer importer_perf_sample;
extern const struct importer importer_power_rails;
extern const struct importer importer_process_descriptor;
extern const struct importer importer_process_stats;
extern const struct importer importer_process_tree;
extern const struct importer importer_profile_packet;
extern const struct importer importer_render_stages;
extern const struct importer importer_service_event;
extern const struct importer importer_smaps;
extern const struct importer importer_stack_sample;
extern const struct importer importer_streaming_profile;
extern const struct importer importer_sys_stats;
extern const struct importer importer_system_info;
extern const struct importer importer_system_properties;
extern const struct importer importer_thread_descriptor;
extern const struct importer importer_trace_config;
extern const struct importer importer_trace_provenance;
extern const struct importer importer_trace_stats;
extern const struct importer importer_trace_uuid;
extern const struct importer importer_track_descriptor;
extern const struct importer importer_track_event;
extern const struct importer importer_translation_table;
extern const struct importer importer_trigger;
extern const struct importer importer_users;
extern const struct importer importer_v8_code_move;
extern const struct importer importer_v8_internal_code;
extern const struct importer importer_v8_js_code;
extern const struct importer importer_v8_regexp_code;
extern const struct importer importer_v8_wasm_code;
extern const struct importer importer_vulkan_api;
extern const struct importer importer_vulkan_memory;
extern const struct importer importer_stacks;
extern const struct importer importer_sched;
extern const struct importer importer_process_counters;
extern const struct importer importer_samples;
extern const struct importer importer_packages;
extern const struct importer importer_gpus;
extern const struct importer importer_json;

const struct importer *const importers[] = {
    &importer_android_log,
    &importer_battery,
    &importer_cpu_info,
    &importer_display_state,
    &importer_gpu_memory,
    &importer_clone_trigger,
    &importer_ftrace,
    &importer_ftrace_stats,
    &importer_process_stats,
    &importer_process_tree,
    &importer_generic_cpu_frequency,
    &importer_generic_process_tree,
    &importer_generic_task_rename,
    &importer_generic_task_state,
    &importer_profile_packet,
    &importer_recording_cut,
    &importer_service_event,
    &importer_sys_stats,
    &importer_system_info,
    &importer_trace_config,
    &importer_trace_stats,
    &importer_trace_uuid,
    &importer_track_descriptor,
    &importer_track_event,
    &importer_trigger,
    &importer_page_residency,
    &importer_perf_sample,
    &importer_stack_sample,
    &importer_streaming_profile,
    &importer_smaps,
    &importer_malloc_info,
    &importer_heap_graph,
    &importer_memory_snapshot,
    &importer_packages_list,
    &importer_perf_map,
    &importer_module_symbols,
    &importer_deobfuscation_mapping,
    &importer_extension_descriptor,
    &importer_process_descriptor,
    &importer_thread_descriptor,
    &importer_cpu_per_uid,
    &importer_energy_breakdown,
    &importer_entity_state,
    &importer_kernel_wakelocks,
    &importer_power_rails,
    &importer_system_properties,
    &importer_game_interventions,
    &importer_users,
    &importer_aconfig_flags,
    &importer_network_packet,
    &importer_network_bundle,
    &importer_journald,
    &importer_gpu_counters,
    &importer_gpu_frequency,
    &importer_gpu_info,
    &importer_gpu_log,
    &importer_render_stages,
    &importer_vulkan_api,
    &importer_vulkan_memory,
    &importer_frame_timeline,
    &importer_graphics_frames,
    &importer_chrome_benchmark,
    &importer_chrome_metadata,
    &importer_chrome_trigger,
    &importer_range_of_interest,
    &importer_statsd_atom,
    &importer_trace_attributes,
    &importer_ui_state,
    &importer_translation_table,
    &importer_trace_provenance,
    &importer_modem_events,
    &importer_modem_texts,
    &importer_art_process_metadata,
    &importer_concurrent_sessions,
    &importer_etw,
    &importer_v8_js_code,
    &importer_v8_internal_code,
    &importer_v8_wasm_code,
    &importer_v8_regexp_code,
    &importer_v8_code_move,
    &importer_metatrace,
    &importer_interrupts,
    &importer_inodes,
    &importer_chrome_events,
    // States that importers share; those with rows of their own write them in this order.
    &importer_stacks,
    &importer_sched,
    &importer_process_counters,
    &importer_samples,
    &importer_packages,
    &importer_gpus,
    &importer_json,
};
const size_t n_importers = ELEMENTS(importers);
_Static_assert(ELEMENTS(importers) <= UINT8_MAX,
               "importer_of of struct import holds a number and 1");
