// A window of an image, and the depth of a pixel in a task's coordinates.

struct Window {
    int height, width;  // of the image
    int top, left, rows, columns;

    __device__ unsigned pixels() const { return (unsigned)rows * columns; }
    __device__ size_t image() const { return (size_t)height * width; }
    // The place in the image of a pixel of the window.
    __device__ size_t place(unsigned p) const { return (size_t)(top + p / columns) * width + left + p % columns; }
};
