/**
 * The CUDA driver and its compilers. Classes named {@code …Calls} bind native functions, one typed
 * method each; above them stand owners of one resource each ({@link
 * org.ep4j.cuda.driver.DeviceMemory}, {@link org.ep4j.cuda.driver.CudaStream}, …), which are closed
 * by whoever made them, children before the {@link org.ep4j.cuda.driver.CudaDevice} they belong to.
 *
 * <p>Contexts: an owner that creates or destroys something makes its device current meanwhile and
 * restores what was current. Calls in stream order (launches, asynchronous copies, events) do not
 * pay for that: the calling thread has called {@link org.ep4j.cuda.driver.CudaDevice#makeCurrent}.
 */
@NullMarked
package org.ep4j.cuda.driver;

import org.jspecify.annotations.NullMarked;
