/**
 * The public API of expert parallelism: values and their conversions, options, results and {@link
 * org.ep4j.ExpertBuffer}. Its operations are those of engines, which register through {@link
 * org.ep4j.engine.EngineProvider}.
 */
@NullMarked
package org.ep4j;

import org.jspecify.annotations.NullMarked;
