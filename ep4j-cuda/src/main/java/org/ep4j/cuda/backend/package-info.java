/**
 * How GPUs reach each other: one interface, and who implements it is found through {@link
 * java.util.ServiceLoader}. Kernels see addresses of their peers' regions, whoever made them.
 */
@NullMarked
package org.ep4j.cuda.backend;

import org.jspecify.annotations.NullMarked;
