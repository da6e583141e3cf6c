SELECT g.*, (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
             WHERE a.arg_set_id = g.arg_set_id) AS more FROM gpu g;

SELECT c.ts, t.type, t.name, t.unit,
       (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
        WHERE a.arg_set_id = t.dimension_arg_set_id) AS what, c.value
FROM counter c JOIN counter_track t ON t.id = c.track_id ORDER BY t.type, t.name, what, c.ts;

SELECT type, name, unit, description, ugpu, gpu_id FROM gpu_counter_track;

SELECT t.name, g.group_id, g.name, g.description FROM gpu_counter_group g
JOIN counter_track t ON t.id = g.track_id ORDER BY t.id, g.id;

SELECT type, name, description FROM gpu_track;

SELECT s.ts, s.dur, t.name, (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
                             WHERE a.arg_set_id = t.dimension_arg_set_id) AS what,
  s.name, s.depth, (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
                    WHERE a.arg_set_id = s.arg_set_id) AS more
FROM slice s JOIN track t ON t.id = s.track_id ORDER BY s.ts, s.id;

SELECT s.ts, s.name, context_id, render_target, render_target_name, render_pass, render_pass_name,
       command_buffer, command_buffer_name, frame_id,
  submission_id, hw_queue_id, p.name, render_subpasses, render_stage_category FROM gpu_slice s
  LEFT JOIN process p USING (upid) ORDER BY s.ts, s.id;

SELECT v.*, (SELECT group_concat(a.key || '=' || a.display_value, ' ') FROM args a
             WHERE a.arg_set_id = v.arg_set_id) AS more FROM vulkan_memory_allocations v;

SELECT o.ts, o.name, i.ts, i.name FROM flow f JOIN slice o ON o.id = f.slice_out
JOIN slice i ON i.id = f.slice_in ORDER BY 1, 3;

SELECT name, value FROM stats WHERE value > 0 AND (name LIKE 'gpu%' OR name LIKE 'vulkan%')
ORDER BY name;
