/** What the operations of a CUDA buffer share: context, peers, region layout, staging. */
@NullMarked
package org.ep4j.cuda.engine.context;

import org.jspecify.annotations.NullMarked;
