/**
 * Settings of a buffer: {@link org.ep4j.config.BufferConfig} and its parts, and names of engines,
 * wires and backends.
 */
@NullMarked
package org.ep4j.config;

import org.jspecify.annotations.NullMarked;
