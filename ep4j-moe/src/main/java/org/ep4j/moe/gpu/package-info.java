/** What a layer on a GPU is made of: memory, queues of work, kernels and products. */
@NullMarked
package org.ep4j.moe.gpu;

import org.jspecify.annotations.NullMarked;
