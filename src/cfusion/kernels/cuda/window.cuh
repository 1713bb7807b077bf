// A window of an image, and the depth of a pixel as a task has it.

struct Window {
    int height, width;  // of the image
    int top, left, rows, columns;

    __device__ unsigned pixels() const { return (unsigned)rows * columns; }
    __device__ size_t image() const { return (size_t)height * width; }
    // Where in the image a pixel of the window is.
    __device__ size_t place(unsigned p) const { return (size_t)(top + p / columns) * width + left + p % columns; }
};
