SELECT t.name, s.ts, s.dur, s.depth, s.name, layer_name, frame_number, queue_to_acquire_time,
       acquire_to_latch_time, latch_to_present_time
FROM frame_slice s JOIN track t ON t.id = s.track_id ORDER BY s.ts, s.id;

SELECT s.ts, s.dur, s.name, p.name, display_frame_token, surface_frame_token, layer_name
FROM expected_frame_timeline_slice s JOIN process p USING (upid) ORDER BY s.ts;

SELECT s.ts, s.dur, s.name, p.name, s.track_id, display_frame_token, surface_frame_token,
       layer_name, present_type, on_time_finish, gpu_composition, jank_type,
  jank_severity_type, prediction_type, jank_tag, jank_tag_experimental, jank_score,
  latched_unsignaled_count, addressable_unsignaled_latch_count, latched_fence_state
FROM actual_frame_timeline_slice s JOIN process p USING (upid) ORDER BY s.ts;

SELECT (SELECT group_concat(a.key || '=' || a.display_value, ', ') FROM args a
        WHERE a.arg_set_id = s.arg_set_id) AS more FROM slice s WHERE s.ts IN (3001, 3030);

SELECT o.ts, o.name, i.ts, i.name FROM flow f JOIN slice o ON o.id = f.slice_out
JOIN slice i ON i.id = f.slice_in ORDER BY 1, 3;

SELECT name, value FROM stats WHERE value > 0 AND (name LIKE 'graphics%' OR name LIKE 'frame%')
ORDER BY name;
