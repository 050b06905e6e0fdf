/**
 * The CUDA driver and its compilers. Classes named {@code …Calls} bind native functions, one typed method each. Above them, each owner class manages one resource ({@link org.ep4j.cuda.driver.DeviceMemory}, {@link org.ep4j.cuda.driver.CudaStream}, …). The creator of an owner closes it, children before their {@link org.ep4j.cuda.driver.CudaDevice}.
 *
 * <p>Contexts: owners that create or destroy a resource make their device current for the call and restore the previous context. Calls in stream order (launches, asynchronous copies, events) avoid this cost: the calling thread has called {@link org.ep4j.cuda.driver.CudaDevice#makeCurrent}.
 */
@NullMarked
package org.ep4j.cuda.driver;

import org.jspecify.annotations.NullMarked;
