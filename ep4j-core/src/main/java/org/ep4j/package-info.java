/**
 * The public API of expert parallelism: values, options, results and {@link org.ep4j.ExpertBuffer}.
 * It holds no logic; engines register through {@link org.ep4j.engine.EngineProvider}.
 */
@NullMarked
package org.ep4j;

import org.jspecify.annotations.NullMarked;
