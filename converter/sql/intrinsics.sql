-- SPDX-License-Identifier: Apache-2.0
--
-- trace_processor's internal tables, which its library uses. The database has them under another
-- name or with other columns. The engine runs this file before the prelude of a given library, and
-- before the first statement that uses such a table. Before that, the engine makes each table
-- __intrinsic_NAME of this file for which the database has NAME or _NAME.
-- A statement about a table that the database lacks is left out.

-- The database has these tables under other names, or with other columns of ids.
CREATE OR REPLACE PERFETTO VIEW __intrinsic_android_aflags AS SELECT * FROM main._android_aflag;
CREATE OR REPLACE PERFETTO VIEW __intrinsic_android_user_list AS SELECT * FROM main._android_user;
CREATE OR REPLACE PERFETTO VIEW __intrinsic_android_cpu_per_uid_track AS
SELECT * FROM main._android_cpu_per_uid;
CREATE OR REPLACE PERFETTO VIEW __intrinsic_android_network_packets AS
SELECT slice_id AS id, iface, direction, packet_transport, packet_length, packet_count, socket_tag,
  socket_tag_str, socket_uid, local_port, remote_port, packet_icmp_type, packet_icmp_code,
  packet_tcp_flags, packet_tcp_flags_str
FROM main._network_packet;
CREATE OR REPLACE PERFETTO VIEW __intrinsic_heap_graph_java_oome_details AS
SELECT * FROM main.android_heap_graph_java_oome_details;
CREATE OR REPLACE PERFETTO VIEW __intrinsic_jit_code AS
SELECT jit_code_id AS id, * FROM main.jit_code;
-- The library assumes that a frame belongs to one piece of code.
CREATE OR REPLACE PERFETTO VIEW __intrinsic_jit_frame AS
SELECT min(p.rowid) AS id, min(s.jit_code_id) AS jit_code_id, p.frame_id
FROM main.perf_map_frame p JOIN main.perf_map_symbol s ON s.id = p.symbol_id
GROUP BY p.frame_id HAVING count(s.jit_code_id) AND min(s.jit_code_id) = max(s.jit_code_id);
CREATE OR REPLACE PERFETTO VIEW __intrinsic_v8_isolate AS
SELECT v8_isolate_id AS id, * FROM main.v8_isolate;
CREATE OR REPLACE PERFETTO VIEW __intrinsic_v8_js_script AS
SELECT v8_js_script_id AS id, * FROM main.v8_js_script;
CREATE OR REPLACE PERFETTO VIEW __intrinsic_v8_wasm_script AS
SELECT v8_wasm_script_id AS id, *, NULL AS source FROM main.v8_wasm_script;
CREATE OR REPLACE PERFETTO VIEW __intrinsic_v8_js_function AS
SELECT v8_js_function_id AS id, * FROM main.v8_js_function;
CREATE OR REPLACE PERFETTO VIEW __intrinsic_chrome_raw AS
SELECT id, ts, name, NULL AS utid, arg_set_id FROM main.chrome_raw;

-- The database has no column for the kind of a track's events.
CREATE OR REPLACE PERFETTO VIEW __intrinsic_track AS
SELECT id, name, parent_id, source_arg_set_id, machine_id, type, dimension_arg_set_id,
  track_group_id,
  CASE is_counter WHEN 1 THEN 'counter' WHEN 0 THEN 'slice' ELSE 'state' END AS event_type,
  unit AS counter_unit,
  description AS counter_description, utid, upid
FROM main._track;

CREATE OR REPLACE PERFETTO VIEW __intrinsic_chrome_stack_sample_extras AS
SELECT id, id AS profiler_sample_id, process_priority FROM main._profiler_sample
WHERE process_priority IS NOT NULL;

CREATE OR REPLACE PERFETTO VIEW _linux_interrupt_mapping AS
SELECT * FROM main.linux_interrupt_mapping;

-- The prelude of the library makes this table, and trace_processor fills it in later.
CREATE OR REPLACE PERFETTO VIEW _trace_bounds AS SELECT start_ts, end_ts FROM main.trace_bounds;

-- mmsql does not read the data of the tables below. They are empty, so that modules that also use
-- other tables can answer.
CREATE TABLE IF NOT EXISTS __intrinsic_android_dumpstate(id, section, service, line);
CREATE TABLE IF NOT EXISTS __intrinsic_android_input_event_dispatch(
  id, event_id, arg_set_id, vsync_id, window_id, base64_proto_id
);
CREATE TABLE IF NOT EXISTS __intrinsic_android_key_events(
  id, event_id, ts, arg_set_id, base64_proto_id, source, action, device_id, display_id, key_code
);
CREATE TABLE IF NOT EXISTS __intrinsic_android_motion_events(
  id, event_id, ts, arg_set_id, base64_proto_id, source, action, device_id, display_id
);
CREATE TABLE IF NOT EXISTS __intrinsic_cpu_freq(id, ucpu, freq);
CREATE TABLE IF NOT EXISTS __intrinsic_experimental_missing_chrome_processes(
  id, upid, reliable_from
);
CREATE TABLE IF NOT EXISTS __intrinsic_gpu_context(id, context_id, pid, api);
CREATE TABLE IF NOT EXISTS __intrinsic_spe_record(
  id, ts, utid, exception_level, instruction_frame_id, operation, data_virtual_address,
  data_physical_address, total_latency, issue_latency, translation_latency, events_bitmask,
  data_source
);
-- Winscope: windows, layers and transactions of Android's graphics.
CREATE TABLE IF NOT EXISTS __intrinsic_inputmethod_clients(id, ts, arg_set_id, base64_proto_id);
CREATE TABLE IF NOT EXISTS __intrinsic_inputmethod_manager_service(
  id, ts, arg_set_id, base64_proto_id
);
CREATE TABLE IF NOT EXISTS __intrinsic_inputmethod_service(id, ts, arg_set_id, base64_proto_id);
CREATE TABLE IF NOT EXISTS __intrinsic_winscope_rect(id, x, y, w, h);
CREATE TABLE IF NOT EXISTS __intrinsic_winscope_transform(id, dsdx, dtdx, tx, dtdy, dsdy, ty);
CREATE TABLE IF NOT EXISTS __intrinsic_winscope_trace_rect(
  id, rect_id, group_id, depth, is_spy, is_visible, opacity, transform_id, border_width,
  border_color
);
CREATE TABLE IF NOT EXISTS __intrinsic_winscope_fill_region(id, trace_rect_id, rect_id);
CREATE TABLE IF NOT EXISTS __intrinsic_surfaceflinger_transaction(
  id, snapshot_id, arg_set_id, base64_proto_id, transaction_id, pid, uid, layer_id, display_id,
  flags_id, transaction_type
);
CREATE TABLE IF NOT EXISTS __intrinsic_surfaceflinger_transaction_flag(id, flags_id, flag);
CREATE TABLE IF NOT EXISTS __intrinsic_surfaceflinger_display(
  id, snapshot_id, is_on, is_virtual, trace_rect_id, display_id, display_name
);
CREATE TABLE IF NOT EXISTS __intrinsic_window_manager_shell_transition_participants(
  id, transition_id, layer_id, window_id, mode, flags, start_display_id, end_display_id,
  start_rotation, end_rotation, start_abs_bounds_rect_id, end_abs_bounds_rect_id
);
CREATE TABLE IF NOT EXISTS __intrinsic_window_manager_shell_transition_protos(
  id, transition_id, base64_proto_id
);
CREATE TABLE IF NOT EXISTS __intrinsic_viewcapture(
  id, ts, arg_set_id, base64_proto_id, package_name, window_name
);
CREATE TABLE IF NOT EXISTS __intrinsic_viewcapture_view(
  id, snapshot_id, arg_set_id, base64_proto_id, node_id, hashcode, is_visible, parent_id, view_id,
  class_name, trace_rect_id
);
CREATE TABLE IF NOT EXISTS __intrinsic_windowmanager(
  id, ts, arg_set_id, base64_proto_id, focused_display_id, has_invalid_elapsed_ts
);
CREATE TABLE IF NOT EXISTS __intrinsic_windowmanager_windowcontainer(
  id, snapshot_id, arg_set_id, base64_proto_id, title, token, parent_token, child_index,
  is_visible, window_rect_id, container_type, name_override
);

-- Wattson estimates energy from curves of power that were measured on some devices. The curves
-- belong to Perfetto. Without the curves, the modules have no estimates.
CREATE PERFETTO FUNCTION __intrinsic_wattson_curves_cpu_1d() RETURNS TABLE(
  device STRING, policy LONG, freq_khz LONG, static DOUBLE, active DOUBLE, idle0 DOUBLE,
  idle1 DOUBLE
) AS
SELECT NULL AS device, NULL AS policy, NULL AS freq_khz, NULL AS static, NULL AS active,
  NULL AS idle0, NULL AS idle1
WHERE 0;
CREATE PERFETTO FUNCTION __intrinsic_wattson_curves_cpu_2d() RETURNS TABLE(
  device STRING, policy LONG, freq_khz LONG, dep_policy LONG, dep_freq LONG, static DOUBLE,
  active DOUBLE, idle0 DOUBLE, idle1 DOUBLE, interconnect DOUBLE
) AS
SELECT NULL AS device, NULL AS policy, NULL AS freq_khz, NULL AS dep_policy, NULL AS dep_freq,
  NULL AS static, NULL AS active, NULL AS idle0, NULL AS idle1, NULL AS interconnect
WHERE 0;
CREATE PERFETTO FUNCTION __intrinsic_wattson_curves_gpu() RETURNS TABLE(
  device STRING, freq_khz LONG, active DOUBLE, idle1 DOUBLE, idle2 DOUBLE
) AS
SELECT NULL AS device, NULL AS freq_khz, NULL AS active, NULL AS idle1, NULL AS idle2 WHERE 0;
CREATE PERFETTO FUNCTION __intrinsic_wattson_curves_l3() RETURNS TABLE(
  device STRING, freq_khz LONG, dep_policy LONG, dep_freq LONG, l3_hit DOUBLE, l3_miss DOUBLE
) AS
SELECT NULL AS device, NULL AS freq_khz, NULL AS dep_policy, NULL AS dep_freq, NULL AS l3_hit,
  NULL AS l3_miss
WHERE 0;
CREATE PERFETTO FUNCTION __intrinsic_wattson_curves_tpu() RETURNS TABLE(
  device STRING, cluster LONG, requests LONG, freq LONG, active DOUBLE
) AS
SELECT NULL AS device, NULL AS cluster, NULL AS requests, NULL AS freq, NULL AS active WHERE 0;

-- The number of bytes of the trace that each field of a packet takes.
CREATE PERFETTO FUNCTION experimental_proto_path_to_frame(path_id LONG) RETURNS BYTES AS
SELECT NULL;
CREATE TABLE IF NOT EXISTS experimental_proto_content(id, path, path_id, total_size, size, count);
CREATE TABLE IF NOT EXISTS experimental_proto_path(
  id, parent_id, field_type, field_name, arg_set_id
);
