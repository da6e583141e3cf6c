SELECT f.rel_pc, m.name, f.name, f.deobfuscated_name FROM stack_profile_frame f
JOIN stack_profile_mapping m ON m.id = f.mapping ORDER BY f.rel_pc;
SELECT f.rel_pc, s.name, s.source_file, s.line_number, s.inlined FROM stack_profile_frame f
JOIN stack_profile_symbol s USING (symbol_set_id) ORDER BY f.rel_pc, s.id;
