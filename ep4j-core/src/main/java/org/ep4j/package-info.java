/**
 * Expert parallelism: {@link org.ep4j.ExpertBuffer}, the options of its operations, and their
 * results. What they are made of has packages of its own: {@code config}, {@code tensor}, {@code
 * routing}, {@code execution} and {@code error}. Operations are those of engines, which register
 * through {@link org.ep4j.engine.EngineProvider}.
 */
@NullMarked
package org.ep4j;

import org.jspecify.annotations.NullMarked;
