-- SPDX-License-Identifier: Apache-2.0
--
-- Perfetto's views of GPUs and of the frames that Android shows.

-- Counters of one GPU.
--   ugpu: GPU, see gpu.id.
--   gpu_id: Number of the GPU on its machine.
CREATE VIEW gpu_counter_track AS
SELECT t.id, t.name, t.type, t.parent_id, t.source_arg_set_id, t.machine_id, t.unit, t.description,
       (SELECT g.id FROM gpu g WHERE g.gpu = a.int_value AND g.machine_id = t.machine_id) AS ugpu,
       CAST(a.int_value AS INTEGER) AS gpu_id
FROM _track t JOIN args a ON a.arg_set_id = t.dimension_arg_set_id AND a.key = 'gpu'
WHERE t.is_counter;

-- Tracks of slices of GPUs, and of frames on their way to the screen.
--   scope: The same as type.
--   description: Description of the track.
--   context_id: Context, where the track has one.
CREATE VIEW gpu_track AS
SELECT id, name, type, parent_id, source_arg_set_id, dimension_arg_set_id, machine_id,
       type AS scope,
       CAST((SELECT string_value FROM args a
             WHERE a.arg_set_id = t.source_arg_set_id
               AND a.key = 'description') AS TEXT) AS description,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = t.dimension_arg_set_id
               AND a.key = 'context_id') AS INTEGER) AS context_id
FROM _track t
WHERE type IN ('drm_vblank', 'drm_sched_ring', 'drm_fence', 'mali_mcu_state', 'gpu_render_stage',
               'vulkan_events',
               'gpu_log', 'graphics_frame_event');

-- Work that ran on GPUs or was submitted to them, and messages of their drivers.
--   context_id: Context of the graphics library.
--   render_target: Handle of the render target.
--   render_target_name: Name of the render target.
--   render_pass: Handle of the render pass.
--   render_pass_name: Name of the render pass.
--   command_buffer: Handle of the command buffer.
--   command_buffer_name: Name of the command buffer.
--   frame_id: Frame; NULL if the event names none.
--   submission_id: Number of the submission.
--   hw_queue_id: Queue of the GPU.
--   upid: Process.
--   render_subpasses: Numbers of the subpasses.
--   render_stage_category: 0 other, 1 graphics, 2 compute.
CREATE VIEW gpu_slice AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id AND a.key = 'context_id') AS INTEGER) AS context_id,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'render_target') AS INTEGER) AS render_target,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'render_target_name') AS TEXT) AS render_target_name,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'render_pass') AS INTEGER) AS render_pass,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'render_pass_name') AS TEXT) AS render_pass_name,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'command_buffer') AS INTEGER) AS command_buffer,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'command_buffer_name') AS TEXT) AS command_buffer_name,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id AND a.key = 'frame_id') AS INTEGER) AS frame_id,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'submission_id') AS INTEGER) AS submission_id,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'hw_queue_id') AS INTEGER) AS hw_queue_id,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id AND a.key = 'upid') AS INTEGER) AS upid,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'render_subpasses') AS TEXT) AS render_subpasses,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'render_stage_category') AS INTEGER) AS render_stage_category
FROM slice s JOIN _track t ON t.id = s.track_id
WHERE t.type IN ('gpu_render_stage', 'vulkan_events', 'gpu_log');

-- Events of the buffers that are shown, and the phases that frames go through.
--   layer_name: Layer.
--   frame_number: Number of the frame.
--   queue_to_acquire_time: Time from queueing until the GPU finished the frame (ns).
--   acquire_to_latch_time: Time from then until the frame was taken for display (ns).
--   latch_to_present_time: Time from then until the event of this row (ns).
CREATE VIEW frame_slice AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
       CAST((SELECT string_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id AND a.key = 'layer_name') AS TEXT) AS layer_name,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'frame_number') AS INTEGER) AS frame_number,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'queue_to_acquire_time') AS INTEGER) AS queue_to_acquire_time,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'acquire_to_latch_time') AS INTEGER) AS acquire_to_latch_time,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'latch_to_present_time') AS INTEGER) AS latch_to_present_time
FROM slice s JOIN _track t ON t.id = s.track_id WHERE t.type = 'graphics_frame_event';

-- When frames of processes and of the screen were expected to be made.
--   display_frame_token: Frame of the screen.
--   surface_frame_token: Frame of the process; NULL: the row is about the screen itself.
--   upid: Process.
--   layer_name: Layer.
CREATE VIEW expected_frame_timeline_slice AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'Display frame token') AS INTEGER) AS display_frame_token,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'Surface frame token') AS INTEGER) AS surface_frame_token,
       t.upid,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id AND a.key = 'Layer name') AS TEXT) AS layer_name
FROM slice s JOIN _track t ON t.id = s.track_id WHERE t.type = 'android_expected_frame_timeline';

-- When frames of processes and of the screen were made, and what was wrong with them.
--   display_frame_token: Frame of the screen.
--   surface_frame_token: Frame of the process; NULL: the row is about the screen itself.
--   upid: Process.
--   layer_name: Layer.
--   present_type: Whether the frame was shown on time.
--   on_time_finish: 1 if the process finished the frame on time.
--   gpu_composition: 1 if the GPU composed the frame.
--   jank_type: Kind of error, by Android's own judgement.
--   jank_severity_type: Severity of the error.
--   prediction_type: Whether the expectation was still valid.
--   jank_tag: Part of the system that was at fault.
--   jank_tag_experimental: jank_tag by newer rules.
--   jank_score: Severity, as a number.
--   latched_unsignaled_count: Layers that were shown before the GPU was done with them.
--   addressable_unsignaled_latch_count: Layers that could have been shown in this way.
--   latched_fence_state: Whether the GPU had finished the frame when it was taken.
CREATE VIEW actual_frame_timeline_slice AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'Display frame token') AS INTEGER) AS display_frame_token,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'Surface frame token') AS INTEGER) AS surface_frame_token,
       t.upid,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id AND a.key = 'Layer name') AS TEXT) AS layer_name,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id AND a.key = 'Present type') AS TEXT) AS present_type,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'On time finish') AS INTEGER) AS on_time_finish,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'GPU composition') AS INTEGER) AS gpu_composition,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id AND a.key = 'Jank type') AS TEXT) AS jank_type,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'Jank severity type') AS TEXT) AS jank_severity_type,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'Prediction type') AS TEXT) AS prediction_type,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id AND a.key = 'Jank tag') AS TEXT) AS jank_tag,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'Jank tag (experimental)') AS TEXT) AS jank_tag_experimental,
       CAST((SELECT real_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'Jank Severity Score') AS REAL) AS jank_score,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'Latched unsignaled count') AS INTEGER) AS latched_unsignaled_count,
       CAST((SELECT int_value FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'Addressable unsignaled latch count')
         AS INTEGER) AS addressable_unsignaled_latch_count,
       CAST((SELECT nullif(string_value, '') FROM args a
             WHERE a.arg_set_id = s.arg_set_id
               AND a.key = 'Latched fence state') AS TEXT) AS latched_fence_state
FROM slice s JOIN _track t ON t.id = s.track_id WHERE t.type = 'android_actual_frame_timeline';
