-- SPDX-License-Identifier: Apache-2.0
--
-- Perfetto's views of GPUs and of the frames that Android shows.

-- Counters of one GPU.
--   ugpu: GPU, see gpu.id.
--   gpu_id: Number of the GPU on its machine.
CREATE VIEW gpu_counter_track AS
SELECT t.id, t.name, t.type, t.parent_id, t.source_arg_set_id, t.machine_id, t.unit, t.description,
       (SELECT g.id FROM gpu g WHERE g.gpu = a.int_value AND g.machine_id = t.machine_id) AS ugpu,
       a.int_value AS gpu_id
FROM _track t JOIN args a ON a.arg_set_id = t.dimension_arg_set_id AND a.key = 'gpu' WHERE t.is_counter;

-- Tracks of slices of GPUs, and of what is about to be shown.
--   scope: The same as type.
--   description: What it shows.
--   context_id: Context, where the track has one.
CREATE VIEW gpu_track AS
SELECT id, name, type, parent_id, source_arg_set_id, dimension_arg_set_id, machine_id, type AS scope,
       (SELECT string_value FROM args a WHERE a.arg_set_id = t.source_arg_set_id AND a.key = 'description')
         AS description,
       (SELECT int_value FROM args a WHERE a.arg_set_id = t.dimension_arg_set_id AND a.key = 'context_id')
         AS context_id
FROM _track t
WHERE type IN ('drm_vblank', 'drm_sched_ring', 'drm_fence', 'mali_mcu_state', 'gpu_render_stage', 'vulkan_events',
               'gpu_log', 'graphics_frame_event');

-- What ran on GPUs, was submitted to them, and what their drivers logged.
--   context_id: Context of the graphics library.
--   render_target: Handle of what is rendered to.
--   render_target_name: Its name.
--   render_pass: Handle of the render pass.
--   render_pass_name: Its name.
--   command_buffer: Handle of the command buffer.
--   command_buffer_name: Its name.
--   frame_id: Frame, where one is told.
--   submission_id: Number of the submission.
--   hw_queue_id: Queue of the GPU.
--   upid: Process.
--   render_subpasses: Numbers of the subpasses.
--   render_stage_category: 0 other, 1 graphics, 2 compute.
CREATE VIEW gpu_slice AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'context_id') AS context_id,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'render_target') AS render_target,
       (SELECT nullif(string_value, '') FROM args a
        WHERE a.arg_set_id = s.arg_set_id AND a.key = 'render_target_name') AS render_target_name,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'render_pass') AS render_pass,
       (SELECT nullif(string_value, '') FROM args a
        WHERE a.arg_set_id = s.arg_set_id AND a.key = 'render_pass_name') AS render_pass_name,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'command_buffer') AS command_buffer,
       (SELECT nullif(string_value, '') FROM args a
        WHERE a.arg_set_id = s.arg_set_id AND a.key = 'command_buffer_name') AS command_buffer_name,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'frame_id') AS frame_id,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'submission_id') AS submission_id,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'hw_queue_id') AS hw_queue_id,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'upid') AS upid,
       (SELECT nullif(string_value, '') FROM args a
        WHERE a.arg_set_id = s.arg_set_id AND a.key = 'render_subpasses') AS render_subpasses,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'render_stage_category')
         AS render_stage_category
FROM slice s JOIN _track t ON t.id = s.track_id WHERE t.type IN ('gpu_render_stage', 'vulkan_events', 'gpu_log');

-- Events of the buffers that are shown, and the phases that frames go through.
--   layer_name: Layer that it is of.
--   frame_number: Number of the frame.
--   queue_to_acquire_time: From its queueing until the GPU was done with it (ns).
--   acquire_to_latch_time: From then until it was taken for display (ns).
--   latch_to_present_time: From then until now (ns).
CREATE VIEW frame_slice AS
SELECT s.id, s.ts, s.dur, s.track_id, s.category, s.name, s.depth, s.parent_id, s.arg_set_id,
       (SELECT string_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'layer_name') AS layer_name,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'frame_number') AS frame_number,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'queue_to_acquire_time')
         AS queue_to_acquire_time,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'acquire_to_latch_time')
         AS acquire_to_latch_time,
       (SELECT int_value FROM args a WHERE a.arg_set_id = s.arg_set_id AND a.key = 'latch_to_present_time')
         AS latch_to_present_time
FROM slice s JOIN _track t ON t.id = s.track_id WHERE t.type = 'graphics_frame_event';
