/**
 * How GPUs access each other's memory: one interface, with implementations found through {@link java.util.ServiceLoader}. Kernels get addresses of their peers' regions, independent of the backend.
 */
@NullMarked
package org.ep4j.cuda.backend;

import org.jspecify.annotations.NullMarked;
