/**
 * The communicators by which kernels put with NCCL's GIN: how many, in which steps ranks open them,
 * and the table in which kernels find them. Calls nothing of NCCL.
 */
@NullMarked
package org.ep4j.nccl.gin;

import org.jspecify.annotations.NullMarked;
